/**
 * The life of an execution: exactly these states and arrows (DESIGN §1).
 *
 *     queued -> starting -> running
 *                            |-> awaiting_input -> running
 *                            |-> awaiting_approval -> running
 *                            |-> succeeded
 *                            |-> failed
 *     any non-terminal -> cancelling -> cancelled
 */
import { z } from 'zod';

export const EXECUTION_STATES = [
  'queued',
  'starting',
  'running',
  'awaiting_input',
  'awaiting_approval',
  'cancelling',
  'succeeded',
  'failed',
  'cancelled',
] as const;
export const executionStateSchema = z.enum(EXECUTION_STATES);
export type ExecutionState = (typeof EXECUTION_STATES)[number];

export const TRANSITIONS: Readonly<Record<ExecutionState, readonly ExecutionState[]>> = {
  queued: ['starting', 'cancelling'],
  starting: ['running', 'cancelling'],
  running: ['awaiting_input', 'awaiting_approval', 'succeeded', 'failed', 'cancelling'],
  awaiting_input: ['running', 'cancelling'],
  awaiting_approval: ['running', 'cancelling'],
  cancelling: ['cancelled'],
  succeeded: [],
  failed: [],
  cancelled: [],
};

export function isTerminal(state: ExecutionState): boolean {
  return TRANSITIONS[state].length === 0;
}

export function isAwaiting(state: ExecutionState): boolean {
  return state === 'awaiting_input' || state === 'awaiting_approval';
}

/** The shortest walk from `from` to `to` along the arrows, without `from`; undefined when there is none. */
export function walk(from: ExecutionState, to: ExecutionState): ExecutionState[] | undefined {
  if (from === to) return [];
  const reached = new Map<ExecutionState, ExecutionState[]>([[from, []]]);
  for (const [state, path] of reached) {
    for (const next of TRANSITIONS[state]) {
      if (reached.has(next)) continue;
      if (next === to) return [...path, next];
      reached.set(next, [...path, next]);
    }
  }
  return undefined;
}
