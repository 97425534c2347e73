/** What a command's exit code says. They are part of the interface: scripts read them. */
import type { ExecutionState } from '../protocol/lifecycle.js';

export const EXIT = {
  /** Done; of an execution that is awaited: it succeeded. */
  ok: 0,
  /** It did not work; of an execution: it failed. */
  failed: 1,
  /** What was asked makes no sense: the command line, the configuration, a value. Nothing was done. */
  usage: 2,
  /** The execution was cancelled. */
  cancelled: 3,
  /** The execution waits for an answer, and there is nobody here to give it. */
  needsAnswer: 4,
  /** Left by Ctrl-C; what was started goes on. 128 and the number of the signal, as shells have it. */
  interrupted: 130,
} as const;

/** Of an execution whose end was awaited. */
export function exitCodeOf(state: ExecutionState): number {
  if (state === 'succeeded') return EXIT.ok;
  return state === 'cancelled' ? EXIT.cancelled : EXIT.failed;
}
