import { describe, expect, it } from 'vitest';
import {
  EXECUTION_STATES,
  type ExecutionState,
  isAwaiting,
  isTerminal,
  TRANSITIONS,
  walk,
} from '../../protocol/lifecycle.js';

/** DESIGN §1, written out by hand: these and no others. */
const ARROWS = [
  'queued -> starting',
  'starting -> running',
  'running -> awaiting_input',
  'awaiting_input -> running',
  'running -> awaiting_approval',
  'awaiting_approval -> running',
  'running -> succeeded',
  'running -> failed',
  'queued -> cancelling',
  'starting -> cancelling',
  'running -> cancelling',
  'awaiting_input -> cancelling',
  'awaiting_approval -> cancelling',
  'cancelling -> cancelled',
];

const TERMINAL: ExecutionState[] = ['succeeded', 'failed', 'cancelled'];

describe('the lifecycle', () => {
  it('has exactly the arrows of the contract', () => {
    const arrows = EXECUTION_STATES.flatMap((from) => TRANSITIONS[from].map((to) => `${from} -> ${to}`));
    expect([...arrows].sort()).toEqual([...ARROWS].sort());
  });

  it('ends in succeeded, failed and cancelled, and nowhere else', () => {
    expect(EXECUTION_STATES.filter(isTerminal)).toEqual(TERMINAL);
    expect(EXECUTION_STATES.filter(isAwaiting)).toEqual(['awaiting_input', 'awaiting_approval']);
  });

  it.each<[ExecutionState, ExecutionState, ExecutionState[]]>([
    ['queued', 'failed', ['starting', 'running', 'failed']],
    ['starting', 'failed', ['running', 'failed']],
    ['awaiting_approval', 'failed', ['running', 'failed']],
    ['awaiting_input', 'succeeded', ['running', 'succeeded']],
    ['awaiting_input', 'awaiting_approval', ['running', 'awaiting_approval']],
    ['queued', 'cancelled', ['cancelling', 'cancelled']],
    ['running', 'running', []],
  ])('walks from %s to %s along the arrows', (from, to, path) => {
    expect(walk(from, to)).toEqual(path);
  });

  it.each<[ExecutionState, ExecutionState]>([
    ['cancelling', 'failed'],
    ['cancelling', 'succeeded'],
    ['cancelling', 'running'],
    ['running', 'starting'],
    ['starting', 'queued'],
    ['succeeded', 'failed'],
  ])('knows no way from %s to %s', (from, to) => {
    expect(walk(from, to)).toBeUndefined();
  });

  it('never leaves a terminal state, and every walk uses only arrows', () => {
    for (const from of EXECUTION_STATES)
      for (const to of EXECUTION_STATES) {
        const path = walk(from, to);
        if (isTerminal(from) && from !== to) expect(path).toBeUndefined();
        [from, ...(path ?? [])].reduce((at, next) => {
          expect(ARROWS).toContain(`${at} -> ${next}`);
          return next;
        });
      }
  });
});
