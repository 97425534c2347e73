/**
 * Ending a child and all that it started. Asked first (its input is closed), then told (TERM), then made to (KILL),
 * until none is left. Every step is bounded.
 */
import type { ProcessTree } from './tree.js';
import { settledWithin, until } from './wait.js';

export interface StopLimits {
  /** Milliseconds for the child to end by itself once its input is closed. */
  readonly inputGraceMs: number;
  /** Milliseconds between TERM and KILL. */
  readonly termGraceMs: number;
  /** Milliseconds for which KILL is repeated. */
  readonly killMs: number;
}

export const STOP_LIMITS: StopLimits = { inputGraceMs: 2000, termGraceMs: 1000, killMs: 5000 };

export interface StopReport {
  /** True when a process had to be signalled, since it did not end by itself. */
  readonly forced: boolean;
  /** Pids that are still there: they run as somebody else, or hang in the kernel. */
  readonly left: readonly number[];
}

/** What a child that ends by itself leaves to its own children before they are told. */
const STRAGGLER_MS = 300;

export interface StopTarget {
  readonly tree: ProcessTree;
  /** Resolves when the child itself has ended. */
  readonly exited: Promise<unknown>;
  closeInput(): void;
}

/** Ends `target` and all that belongs to it. Never rejects. */
export async function stopTree(target: StopTarget, limits: StopLimits = STOP_LIMITS): Promise<StopReport> {
  const { tree } = target;
  // Seen before anything ends: once a parent is gone, nothing but this tells whose child it was.
  tree.members();
  target.closeInput();
  const gone = () => tree.members().length === 0;
  if (await endedByItself(target, limits.inputGraceMs)) {
    if (await until(gone, STRAGGLER_MS, 30)) return { forced: false, left: [] };
  }
  tree.signal('SIGTERM');
  if (await until(gone, limits.termGraceMs, 30)) return { forced: true, left: [] };
  // What forks faster than it is listed is met again in the next round.
  await until(() => tree.signal('SIGKILL').length === 0, limits.killMs, 20);
  return { forced: true, left: tree.members() };
}

/** Looks at the tree now and then while it waits, so that late children are known too. */
async function endedByItself(target: StopTarget, ms: number): Promise<boolean> {
  const end = performance.now() + ms;
  for (;;) {
    const left = end - performance.now();
    if (await settledWithin(target.exited, Math.max(0, Math.min(250, left)))) return true;
    if (left <= 0) return false;
    target.tree.members();
  }
}
