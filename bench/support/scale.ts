/** How much of everything is measured. `--quick` only shows that the bench works: its figures say little. */
export interface Scale {
  readonly quick: boolean;
  /** How often the variants of a measure take turns (A B A B …). */
  readonly rounds: number;
  /** Executions of one turn, at 30 at once. */
  readonly executions: number;
  readonly concurrencies: readonly number[];
  /** Calls of one turn where a single call is timed. */
  readonly calls: number;
  /** Events of one stream at 40 a second. */
  readonly streamed: number;
  /** Seconds of a stream at 1,000 events a second. */
  readonly fastSeconds: number;
  readonly flood: number;
  /** Up to how many events the delay is measured, and how long the log is that is replayed. */
  readonly longLog: number;
  /** How often on the way there a single event is timed, and how many events each time. */
  readonly probeStops: number;
  readonly probes: number;
  readonly suspended: number;
}

export const FULL: Scale = {
  quick: false,
  rounds: 3,
  executions: 150,
  concurrencies: [1, 5, 10, 30, 60],
  calls: 15,
  streamed: 200,
  fastSeconds: 10,
  flood: 30_000,
  longLog: 30_000,
  probeStops: 16,
  probes: 12,
  suspended: 1_000,
};

export const QUICK: Scale = {
  quick: true,
  rounds: 2,
  executions: 40,
  concurrencies: [1, 10, 30],
  calls: 6,
  streamed: 80,
  fastSeconds: 2,
  flood: 5_000,
  longLog: 4_000,
  probeStops: 5,
  probes: 6,
  suspended: 100,
};
