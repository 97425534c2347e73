/** What passes between the bare workflows and their callers. Safe on both sides of the sandbox. */
export const BARE_QUEUE = 'bench-bare';
/** Carries activities alone, like a host's own queue: what is scheduled there is never started eagerly. */
export const BARE_HOST_QUEUE = 'bench-bare-host';

export interface PlannedSignal {
  /** Size of its argument. */
  readonly bytes: number;
  /** How long after the one before, or after the activity began. Without it signals share a workflow task more often. */
  readonly afterMs: number;
}

/** What of a real execution's history the same-events workflow repeats. */
export interface SameEventsPlan {
  /** The activity's signals, in their order. */
  readonly signals: readonly PlannedSignal[];
  /** Upserts of the search attribute, each before the workflow waits on. */
  readonly upserts: number;
}

export interface BareActivities {
  /** Does nothing but tell when it began. */
  noop(id: string): Promise<void>;
  /** Signals its own workflow, one signal after the other. */
  signals(signals: readonly PlannedSignal[]): Promise<void>;
}
