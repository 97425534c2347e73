/**
 * Random histories of one execution: every kind of input, right and wrong, in any order. A move says what is meant
 * ("the host sends text"); played against a log it becomes the input that fits the log's state, or misses on purpose.
 */
import fc from 'fast-check';
import type { AskedAction } from '../../protocol/action.js';
import type { LogEvent } from '../../protocol/event.js';
import { eventSchema } from '../../protocol/event.js';
import type { Json } from '../../protocol/json.js';
import { throughJson } from '../../protocol/json.js';
import type { LogInput } from '../../protocol/log/inputs.js';
import { begin, reduce } from '../../protocol/log/reduce.js';
import type { LogState, Step } from '../../protocol/log/state.js';
import { actionRequest, artifact, IDENTITY, REQUEST } from './log-driver.js';

/** What stands in a history at one place. */
export interface Moment {
  readonly input: LogInput;
  readonly before: LogState;
  readonly step: Step;
}

export interface History {
  readonly first: Step;
  readonly moments: readonly Moment[];
  readonly state: LogState;
  readonly events: readonly LogEvent[];
}

type Move = (play: Play) => LogInput;

/** What a move may look at: the log as it is, and what was sent before. */
class Play {
  readonly sent: LogInput[] = [];
  private readonly batches = new Map<string, number>();
  private drawn = 0;

  constructor(public state: LogState) {}

  token(): string {
    return `token-${++this.drawn}`;
  }

  nextBatch(token: string): number {
    const batch = (this.batches.get(token) ?? 0) + 1;
    this.batches.set(token, batch);
    return batch;
  }

  /** The id of an action: the open one, an ended one or one that never was. */
  actionId(which: number): string {
    const open = this.state.open?.request.id;
    const held = this.state.answers.map((answer) => answer.action.id);
    const known = [open, ...held, ...Object.keys(this.state.actions), 'act_never'].filter((id) => id !== undefined);
    return known[which % known.length] ?? 'act_never';
  }
}

const signal = (name: string, argument: unknown): LogInput => ({ kind: 'signal', name, args: [argument] });
const mark = (value: unknown): LogInput => ({ kind: 'mark', mark: value });

const word = fc.string({ unit: 'binary', maxLength: 12 });
const json = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<Json>;
/** Evenly drawn; numbers as such come out small. */
const small = fc.constantFrom(0, 1, 2, 3, 4, 5);
const recovery = fc.constantFrom('none', 'journal', 'journal');
const responseId = fc.constantFrom('resp_a', 'resp_b', 'resp_c', 'resp_d');
const confirmation = fc.constantFrom('cooperative', 'forced', 'abandoned', 'lost', 'not_running');

const question: fc.Arbitrary<Partial<AskedAction>> = fc
  .record({
    kind: fc.constantFrom('approval', 'input'),
    title: fc.constantFrom('Deploy?', 'Delete?'),
    payload: fc.constantFrom<Json>({}, null, {
      options: [
        { id: 'yes', name: 'Yes', kind: 'allow_once' },
        { id: 'no', name: 'No', kind: 'reject_once' },
      ],
    }),
  })
  .chain((asked) =>
    fc.constantFrom<Partial<AskedAction>>(
      asked,
      { ...asked, expiresAt: '2026-01-02T00:00:00.000Z' },
      { ...asked, expiresAt: '2026-01-02T00:00:00.000Z', onExpiry: 'fail' },
      // On an approval this is not taken.
      { ...asked, valueSchema: { type: 'integer', maximum: 4 } },
    ),
  );

/** Native names, good ones and such as would pass for the runtime's own. */
const nativeName = fc.constantFrom('acp.plan', 'x.y', 'runtime.recovered', 'RUNTIME.x', 'run.', 'plain', '', 'a b.c');

type Item = (play: Play) => unknown;
const item: fc.Arbitrary<Item> = fc.oneof(
  { weight: 12, arbitrary: fc.constant<Item>(() => ({ kind: 'started' })) },
  {
    weight: 12,
    arbitrary: word.map(
      (text): Item =>
        () => ({ kind: 'text', text }),
    ),
  },
  {
    weight: 9,
    arbitrary: fc.tuple(nativeName, json).map(
      ([name, of]): Item =>
        () => ({ kind: 'native', data: { name, of, sequence: 99, type: 'run.completed' } }),
    ),
  },
  {
    weight: 9,
    arbitrary: small.map(
      (n): Item =>
        () => ({ kind: 'artifact', artifact: artifact(`art_${n}`) }),
    ),
  },
  {
    weight: 15,
    arbitrary: fc.tuple(question, fc.nat({ max: 30 }), fc.constantFrom(false, false, true)).map(
      ([fields, n, suspend]): Item =>
        () => ({ kind: 'action', action: actionRequest(`act_${n}`, fields), suspend }),
    ),
  },
  {
    weight: 6,
    arbitrary: fc.tuple(small, fc.boolean()).map(
      ([n, suspend]): Item =>
        (play) => ({ kind: 'adopt', actionId: play.actionId(n), suspend }),
    ),
  },
  {
    weight: 3,
    arbitrary: small.map(
      (n): Item =>
        (play) => ({ kind: 'withdraw', actionId: play.actionId(n) }),
    ),
  },
  {
    weight: 9,
    arbitrary: small.map(
      (n): Item =>
        (play) => ({ kind: 'taken', actionId: play.actionId(n) }),
    ),
  },
  {
    weight: 6,
    arbitrary: small.map(
      (n): Item =>
        (play) => ({ kind: 'started', took: play.actionId(n) }),
    ),
  },
  {
    weight: 9,
    arbitrary: json.map(
      (entry): Item =>
        () => ({ kind: 'record', entry }),
    ),
  },
  {
    weight: 3,
    arbitrary: json.map(
      (session): Item =>
        () => ({ kind: 'session', session }),
    ),
  },
  {
    weight: 2,
    arbitrary: fc.boolean().map(
      (forget): Item =>
        () => ({ kind: 'session_lost', message: 'gone', forget }),
    ),
  },
  {
    weight: 1,
    arbitrary: fc.option(word).map(
      (finalOutput): Item =>
        () => ({
          kind: 'completed',
          ...(finalOutput === null ? {} : { finalOutput, usage: { inputTokens: 3 } }),
        }),
    ),
  },
  {
    weight: 3,
    arbitrary: small.map(
      (n): Item =>
        () => ({ kind: 'usage', usage: n === 0 ? {} : n === 1 ? { costUsd: 0.5 } : { inputTokens: n } }),
    ),
  },
  {
    weight: 1,
    arbitrary: word.map(
      (message): Item =>
        () => ({ kind: 'failed', code: 'PROVIDER_ERROR', message }),
    ),
  },
);

/** Items that no host of ours sends: they forge, or are of a kind that nobody knows. */
const forged: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom(
    { kind: 'run.completed', data: { finalOutput: 'forged' } },
    { kind: 'event', type: 'run.cancelled', data: {} },
    { kind: 'text', text: 7 },
    { kind: 'native', data: { name: 'runtime.recovered', attempt: 9 } },
    { kind: 'artifact', artifact: { id: 'art_1' } },
    { kind: 'completed', finalOutput: {} },
  ),
  json,
);

const anyResponse = fc.oneof(
  fc.constantFrom<Json>(
    { approved: true },
    { approved: false },
    { value: 0 },
    { value: '' },
    { approved: true, value: { optionId: 'yes' } },
    { approved: true, value: { optionId: 'no' } },
    { approved: 'true' },
    { approved: true, expectedDigest: 'f'.repeat(64) },
    { approved: false, value: 1, metadata: { by: 'ada' }, audit: true },
    {},
  ),
  json,
);

/** Anything at all, also what JSON cannot hold. */
const anything = fc.anything({
  withBigInt: true,
  withBoxedValues: true,
  withDate: true,
  withMap: true,
  withNullPrototype: true,
  withObjectString: true,
  withSet: true,
  withSparseArray: true,
  withTypedArray: true,
});

const signalName = fc.oneof(
  fc.constantFrom('announce', 'append', 'respond', 'toString', '__proto__', 'event', 'run.completed'),
  word,
);
const markKind = fc.constantFrom('expired', 'attempt', 'settled', 'timeout', 'stopped', 'rollover', 'finished');

export const junk: fc.Arbitrary<LogInput> = fc.oneof(
  fc
    .tuple(signalName, fc.array(anything, { maxLength: 2 }))
    .map(([name, args]) => ({ kind: 'signal', name, args }) as const),
  anything.map(mark),
  fc.tuple(markKind, anything).map(([kind, of]) => mark({ kind, attempt: of, result: of, confirmation: of })),
  fc.tuple(anything, anything).map(([token, items]) => signal('append', { token, batch: 1, items })),
  fc
    .tuple(responseId, anything)
    .map(([id, response]) => signal('respond', { responseId: id, actionId: 'act_1', response })),
);

const batch = (items: readonly Item[], play: Play, token = play.state.host?.token ?? 'none'): LogInput =>
  signal('append', { token, batch: play.nextBatch(token), items: items.map((make) => make(play)) });

const announcement = (attempt: number, play: Play, how: string): LogInput =>
  signal('announce', {
    attempt,
    token: play.token(),
    queue: 'host',
    watchQueue: 'host-watch',
    providerVersion: '1.0.0',
    capabilities: { 'action.input': 'native' },
    effectiveConfig: { steps: [] },
    recovery: how,
  });

/** What a sound world does next; histories of mostly this reach far. */
const onward: fc.Arbitrary<Move> = fc
  .tuple(fc.array(item, { minLength: 1, maxLength: 4 }), anyResponse, responseId, recovery, small)
  .map(
    ([items, response, id, how, dice]): Move =>
      (play) => {
        const { state } = play;
        const over = state.attemptLost || (state.host?.suspended && state.open === undefined);
        if (over) return mark({ kind: 'attempt', attempt: state.attempt + 1 });
        if (state.host === undefined) return announcement(state.attempt, play, how);
        if (!state.host.started) {
          const suspended = state.answers.find((answer) => answer.suspended);
          return batch([() => ({ kind: 'started', ...(suspended && { took: suspended.action.id }) })], play);
        }
        const untaken = state.answers.find(
          (answer) => answer.attempt === state.attempt && answer.takenBy === undefined,
        );
        if (untaken !== undefined && dice > 0)
          return batch([() => ({ kind: 'taken', actionId: untaken.action.id })], play);
        if (state.open === undefined || dice === 0) return batch(items, play);
        if (dice < (state.open.attempt === state.attempt ? 2 : 4))
          return batch([() => ({ kind: 'adopt', actionId: state.open?.request.id })], play);
        const fitting = state.open.request.kind === 'approval' ? { approved: dice > 2 } : { value: dice };
        const answer = dice === 2 ? response : fitting;
        return signal('respond', { responseId: id, actionId: state.open.request.id, response: answer });
      },
  );

const lose = fc.constant<Move>((play) =>
  mark({ kind: 'settled', attempt: play.state.attempt, result: { how: 'lost', message: 'gone' } }),
);

/** The same parts, whether or not it is their time. */
const honest: fc.Arbitrary<Move>[] = [
  recovery.map(
    (how): Move =>
      (play) =>
        announcement(play.state.attempt, play, how),
  ),
  fc.array(item, { minLength: 1, maxLength: 4 }).map(
    (items): Move =>
      (play) =>
        batch(items, play),
  ),
  fc.tuple(responseId, small, anyResponse).map(
    ([id, which, response]): Move =>
      (play) =>
        signal('respond', { responseId: id, actionId: play.actionId(which), response }),
  ),
  fc.constant<Move>((play) => mark({ kind: 'attempt', attempt: play.state.attempt + 1 })),
  lose,
  fc.constant<Move>(() => mark({ kind: 'rollover' })),
  small.map(
    (which): Move =>
      (play) =>
        mark({ kind: 'expired', actionId: play.actionId(which) }),
  ),
];

/** What ends an execution, early or at the wrong moment. */
const ending: fc.Arbitrary<Move>[] = [
  fc.constantFrom<unknown>(undefined, 'a bare text', { reason: 'enough' }, { reason: '' }, 7).map(
    (reason): Move =>
      () =>
        signal('cancel', reason),
  ),
  fc.constant<Move>(() => mark({ kind: 'cancel_requested' })),
  fc.constant<Move>(() => mark({ kind: 'timeout' })),
  confirmation.map(
    (how): Move =>
      () =>
        mark({ kind: 'stopped', confirmation: how }),
  ),
  fc.constant<Move>((play) => {
    const result = { how: 'refused', code: 'CAPABILITY_UNSUPPORTED', message: 'not here' };
    return mark({ kind: 'settled', attempt: play.state.attempt, result });
  }),
];

/** Duplicates, strangers and forgers. */
const wrong: fc.Arbitrary<Move>[] = [
  fc.tuple(small, recovery).map(
    ([attempt, how]): Move =>
      (play) =>
        announcement(attempt, play, how),
  ),
  fc.nat().map(
    (which): Move =>
      (play) =>
        play.sent[which % play.sent.length] ?? mark({ kind: 'rollover' }),
  ),
  fc.array(item, { maxLength: 3 }).map(
    (items): Move =>
      (play) =>
        batch(items, play, 'token-of-a-stranger'),
  ),
  fc.array(forged, { maxLength: 2 }).map(
    (items): Move =>
      (play) =>
        batch(
          items.map((one) => () => one),
          play,
        ),
  ),
  small.map(
    (attempt): Move =>
      () =>
        mark({ kind: 'settled', attempt, result: { how: 'lost', message: 'late' } }),
  ),
  junk.map(
    (input): Move =>
      () =>
        input,
  ),
];

const weighted = (arbitraries: fc.Arbitrary<Move>[], weight: number) =>
  arbitraries.map((arbitrary) => ({ arbitrary, weight }));

const move = fc.oneof(
  { arbitrary: onward, weight: 150 },
  { arbitrary: lose, weight: 10 },
  ...weighted(honest, 4),
  ...weighted(ending, 1),
  ...weighted(wrong, 4),
);

/** Plays the moves from `run.queued` on. Signals and marks pass through JSON as they do in a history. */
function play(moves: readonly Move[]): History {
  const first = begin(IDENTITY, REQUEST);
  const play = new Play(first.state);
  const moments: Moment[] = [];
  for (const next of moves) {
    const input = storable(next(play));
    const before = play.state;
    const step = reduce(before, input);
    play.sent.push(input);
    play.state = step.state;
    moments.push({ input, before, step });
  }
  const events = [...first.events, ...moments.flatMap((moment) => moment.step.events)];
  // What a failing property prints.
  const toText = () => moments.map((moment) => fc.stringify(moment.input)).join('\n');
  return Object.assign({ first, moments, state: play.state, events }, { [fc.toStringMethod]: toText });
}

/** As a history would hold it; what it could not hold at all is handed in raw. */
function storable(input: LogInput): LogInput {
  try {
    return throughJson(input);
  } catch {
    return input;
  }
}

const moves: fc.Arbitrary<Move[]> = fc.array(move, { minLength: 1, maxLength: 60, size: 'max' });
export const history: fc.Arbitrary<History> = moves.map(play);

/** An event as a reader shows it, with a time, checked against its schema. */
export function checkShape(event: LogEvent): void {
  const { executionId } = IDENTITY;
  const time = '2026-01-01T00:00:00.000Z';
  eventSchema.parse({ ...event, id: `${executionId}:${event.sequence}`, executionId, time });
}
