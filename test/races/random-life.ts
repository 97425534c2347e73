/** Random lives of an execution as plain data, so that a failure prints what was done: groups of moves sent at once. */
import fc from 'fast-check';
import type { Json } from '../../protocol/json.js';

/** Stands in every forged or foreign item: nothing with it may ever be in a log. */
export const FORGED = 'forged-canary';

export type Move =
  | {
      readonly do: 'batch';
      readonly items: readonly object[];
      readonly token: 'own' | 'first' | 'stranger';
      readonly number: 'next' | 'same' | 'far';
    }
  | { readonly do: 'again'; readonly which: number }
  | {
      readonly do: 'respond';
      readonly by: 'signal' | 'client';
      readonly actionId: string;
      readonly responseId: string;
      readonly response: Json;
    }
  | { readonly do: 'cancel'; readonly by: 'signal' | 'client' | 'temporal' }
  | { readonly do: 'lose' | 'rollover' | 'undecodable' | 'announce' | 'replay' | 'conflict' };

export interface Life {
  readonly recovery: 'none' | 'journal';
  readonly refuse: boolean;
  readonly groups: readonly (readonly Move[])[];
  readonly end: 'completed' | 'failed' | 'cancel' | 'five cancels' | 'timeout';
}

const word = fc.string({ unit: 'grapheme', maxLength: 8 });
const n = fc.constantFrom(0, 1, 2, 3);
const actionId = n.map((i) => `act_${i}`);
const createdAt = '2026-01-01T00:00:00.000Z';

const question = fc.record({
  actionId,
  kind: fc.constantFrom('approval', 'input'),
  title: fc.constantFrom('Deploy?', 'Delete?'),
});

const item: fc.Arbitrary<object> = fc.oneof(
  { weight: 6, arbitrary: word.map((text) => ({ kind: 'text', text })) },
  {
    weight: 3,
    arbitrary: n.map((of) => ({
      kind: 'native',
      data: { name: 'test.note', of, sequence: 99, type: 'run.completed' },
    })),
  },
  {
    weight: 2,
    arbitrary: fc
      .constantFrom('runtime.recovered', 'run.completed', 'output.text', 'action.required', 'plain')
      .map((name) => ({ kind: 'native', data: { name, of: FORGED } })),
  },
  {
    weight: 3,
    arbitrary: n.map((i) => ({
      kind: 'artifact',
      artifact: { id: `art_${i}`, executionId: 'exec_x', name: 'a', mediaType: 'text/plain', createdAt, metadata: {} },
    })),
  },
  {
    weight: 5,
    arbitrary: fc.tuple(question, fc.constantFrom(false, false, false, true)).map(([asked, suspend]) => ({
      kind: 'action',
      action: {
        id: asked.actionId,
        executionId: 'exec_x',
        kind: asked.kind,
        title: asked.title,
        payload: {},
        createdAt,
      },
      suspend,
    })),
  },
  { weight: 1, arbitrary: actionId.map((id) => ({ kind: 'withdraw', actionId: id })) },
  { weight: 1, arbitrary: actionId.map((id) => ({ kind: 'adopt', actionId: id })) },
  { weight: 2, arbitrary: actionId.map((id) => ({ kind: 'taken', actionId: id })) },
  { weight: 2, arbitrary: n.map((entry) => ({ kind: 'record', entry })) },
  { weight: 1, arbitrary: fc.constant({ kind: 'started' }) },
);

/** What no host sends: it would make the log lie. */
const forged: fc.Arbitrary<object> = fc.constantFrom(
  { kind: 'run.completed', data: { finalOutput: FORGED } },
  { kind: 'event', type: 'run.cancelled', data: { reason: FORGED } },
  { kind: 'action.responded', data: { actionId: FORGED } },
  { kind: 'text', text: { of: FORGED } },
);

const answer: fc.Arbitrary<Json> = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom<Json>({ approved: true }, { approved: false }, { value: 0 }, { value: '' }) },
  { weight: 1, arbitrary: fc.constantFrom<Json>({}, { approved: 'true' }, null, { approved: 1 }, 'yes') },
);

const number = fc.constantFrom<'next' | 'same' | 'far'>('next', 'next', 'next', 'next', 'same', 'far');

const move: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.record({
      do: fc.constant('batch' as const),
      items: fc.array(item, { minLength: 1, maxLength: 4 }),
      token: fc.constantFrom<'own' | 'first' | 'stranger'>('own', 'own', 'own', 'own', 'own', 'first'),
      number,
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      do: fc.constant('batch' as const),
      items: fc.array(forged, { minLength: 1, maxLength: 2 }),
      token: fc.constant('own' as const),
      number,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.constant({
      do: 'batch' as const,
      items: [{ kind: 'text', text: FORGED }],
      token: 'stranger' as const,
      number: 'far' as const,
    }),
  },
  { weight: 8, arbitrary: fc.record({ do: fc.constant('again' as const), which: fc.nat({ max: 100 }) }) },
  {
    weight: 20,
    arbitrary: fc.record({
      do: fc.constant('respond' as const),
      by: fc.constantFrom<'signal' | 'client'>('signal', 'signal', 'client'),
      actionId,
      responseId: fc.constantFrom('resp_a', 'resp_b', 'resp_c'),
      response: answer,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('cancel' as const),
      by: fc.constantFrom<'signal' | 'client' | 'temporal'>('signal', 'client', 'temporal'),
    }),
  },
  { weight: 5, arbitrary: fc.constantFrom<Move>({ do: 'lose' }, { do: 'rollover' }, { do: 'rollover' }) },
  { weight: 4, arbitrary: fc.constantFrom<Move>({ do: 'undecodable' }, { do: 'announce' }) },
  { weight: 2, arbitrary: fc.constantFrom<Move>({ do: 'replay' }, { do: 'conflict' }) },
);

export const life: fc.Arbitrary<Life> = fc.record({
  recovery: fc.constantFrom<'none' | 'journal'>('journal', 'journal', 'none'),
  refuse: fc.constantFrom(...Array<boolean>(19).fill(false), true),
  groups: fc.array(fc.array(move, { minLength: 1, maxLength: 4 }), { minLength: 2, maxLength: 10, size: 'max' }),
  end: fc.constantFrom<Life['end']>('completed', 'completed', 'failed', 'cancel', 'five cancels', 'timeout'),
});
