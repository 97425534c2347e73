/** Turns by themselves: the order, and what is remembered of them. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Json, jsonBytes } from '../../protocol/json.js';
import {
  MAX_TRANSCRIPT_BYTES,
  MAX_TRANSCRIPT_TURNS,
  NO_TURNS,
  type TranscriptTurn,
  type TurnsState,
  takeTurns,
} from '../../protocol/turns.js';
import { checked } from './checked.js';

function remembering(turns: readonly { input: Json; output: string }[]): TurnsState {
  let state = NO_TURNS;
  turns.forEach((turn, i) => {
    const executionId = `exec_${i}`;
    state = takeTurns(state, { kind: 'ready', executionId, providerId: 'p' }).state;
    expect(state.holder).toBe(executionId);
    state = takeTurns(state, { kind: 'release', executionId, providerId: 'p', turn: { executionId, ...turn } }).state;
  });
  return state;
}

describe('the transcript', () => {
  it('holds the newest turns, whole, within its turns and bytes; a turn of any size fits', () => {
    const text = fc.string({ unit: 'binary', size: 'max', maxLength: 30_000 });
    checked(
      fc.array(fc.record({ input: text, output: text }), { minLength: 1, maxLength: 12 }),
      (turns) => {
        const { transcript } = remembering(turns);
        expect(jsonBytes(transcript)).toBeLessThan(MAX_TRANSCRIPT_BYTES + 1024);
        expect(transcript.length).toBeGreaterThan(0);
        // The newest, in order, without a gap.
        const ids = turns.map((_, i) => `exec_${i}`);
        expect(transcript.map((turn) => turn.executionId)).toEqual(ids.slice(-transcript.length));
        transcript.forEach((turn: TranscriptTurn, i) => {
          const given = turns[turns.length - transcript.length + i]!;
          expect(given.output.endsWith(turn.output)).toBe(true);
          expect([given.input, '(the input was too long to be kept)']).toContain(turn.input);
        });
      },
      100,
    );
  });

  it('holds at most 50 turns', () => {
    const { transcript } = remembering(Array.from({ length: 120 }, (_, i) => ({ input: i, output: `${i}` })));
    expect(transcript).toHaveLength(MAX_TRANSCRIPT_TURNS);
    expect(transcript.at(-1)?.output).toBe('119');
  });
});

describe('turns', () => {
  const id = fc.constantFrom('exec_a', 'exec_b', 'exec_c', 'exec_d');
  const input = fc.oneof(
    fc.record({ kind: fc.constant('enqueue' as const), executionId: id, first: fc.boolean(), interrupt: fc.boolean() }),
    fc.record({ kind: fc.constant('ready' as const), executionId: id, providerId: fc.constant('p') }),
    fc.record({ kind: fc.constant('release' as const), executionId: id, providerId: fc.constant('p') }),
    fc.record({ kind: fc.constant('gone' as const), executionId: id, unseen: fc.boolean() }),
    fc.record({ kind: fc.constant('touch' as const) }),
  );

  it('are given to one at a time, to nobody twice, and never wait for nobody', () => {
    checked(fc.array(input, { maxLength: 40 }), (inputs) => {
      let state = NO_TURNS;
      for (const each of inputs) {
        const step = takeTurns(state, each);
        if (step.grant !== undefined) {
          expect(step.state.holder).toBe(step.grant.executionId);
          expect(state.holder === undefined || state.holder !== step.state.holder).toBe(true);
        }
        state = step.state;
        const ids = [...(state.holder === undefined ? [] : [state.holder]), ...state.waiting.map((w) => w.executionId)];
        expect(new Set(ids).size).toBe(ids.length);
        // Whoever is first and there has the turn.
        if (state.holder === undefined) expect(state.waiting[0]?.providerId).toBeUndefined();
      }
    });
  });

  it('change nothing when somebody says again that it is there', () => {
    const { state } = takeTurns(NO_TURNS, { kind: 'ready', executionId: 'exec_a', providerId: 'p' });
    const again = takeTurns(state, { kind: 'ready', executionId: 'exec_a', providerId: 'p' });
    expect(again).toEqual({ state, cancel: [] });
  });
});
