/** What passes between the bare workflows and their callers. Safe on both sides of the sandbox. */
export const BARE_QUEUE = 'bench-bare';

/** What of a real execution's history the same-events workflow repeats. */
export interface SameEventsPlan {
  /** Bytes of each signal's argument, in their order. */
  readonly signals: readonly number[];
  /** Upserts of the search attribute, each before the workflow waits on. */
  readonly upserts: number;
}

export interface BareActivities {
  /** Does nothing but tell when it began. */
  noop(id: string): Promise<void>;
  /** Signals its own workflow, one signal after the other. */
  signals(sizes: readonly number[]): Promise<void>;
}
