/**
 * How often a race is run. The everyday suite runs each a few times, the faults suite often (vitest.config.ts); an
 * environment variable says otherwise.
 */
const often = (name: string, everyday: number): number => Number(process.env[name] ?? everyday);

/** Answers against a cancel, completion, timeout and rollover; of each so many. */
export const RACES = often('HOLDFAST_RACES', 12);
/** Random lives of executions, whose invariants are checked. */
export const LIVES = often('HOLDFAST_LIVES', 12);
/** Cancels at any moment. */
export const CANCELS = often('HOLDFAST_CANCELS', 50);
/** Executions that wait for two slots. */
export const QUEUED = often('HOLDFAST_QUEUED', 20);
