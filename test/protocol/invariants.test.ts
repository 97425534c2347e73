/** The nine invariants of the contract (DESIGN §1) and what else the log promises, over random histories. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isTerminalEvent, type LogEvent, nativeNameProblem } from '../../protocol/event.js';
import { type Json, jsonBytes, throughJson } from '../../protocol/json.js';
import { isAwaiting, isTerminal, walk } from '../../protocol/lifecycle.js';
import {
  KIB,
  MAX_ACTION_BYTES,
  MAX_ACTIONS,
  MAX_ARTIFACTS,
  MAX_CARRIED_JOURNAL_BYTES,
  MAX_CONFIG_BYTES,
  MAX_DELTA_BYTES,
  MAX_MESSAGE_LENGTH,
  MAX_REQUEST_BYTES,
  MAX_RESPONSE_BYTES,
  MAX_SESSION_BYTES,
} from '../../protocol/limits.js';
import { reduce } from '../../protocol/log/reduce.js';
import { type Closing, seal } from '../../protocol/log/seal.js';
import type { LogState } from '../../protocol/log/state.js';
import { unsupportedOf } from '../../protocol/manifest.js';
import { MAX_TRANSCRIPT_BYTES } from '../../protocol/turns.js';
import { checked } from './checked.js';
import { actionRequest, artifact, Log } from './log-driver.js';
import { checkShape, type History, history, junk, type Moment } from './random-history.js';

const terminals = (events: readonly LogEvent[]) => events.filter(isTerminalEvent);
const closings = fc.constantFrom<Closing>('completed', 'failed', 'canceled', 'terminated', 'timed_out');
const signalled = (moment: Moment, name: string) => moment.input.kind === 'signal' && moment.input.name === name;

/** Ids of the actions that `events` of this type speak of. */
function actionIds(events: readonly LogEvent[], type: 'action.required' | 'action.responded'): string[] {
  return events.flatMap((event) => {
    if (event.type !== type) return [];
    return event.type === 'action.required' ? [event.data.id] : [(event.data as { actionId: string }).actionId];
  });
}

const unique = (ids: readonly string[]) => expect(new Set(ids).size).toBe(ids.length);

describe('the invariants', () => {
  it('1: the sequence is contiguous and strictly increasing', () => {
    checked(history, ({ events, moments, state }) => {
      expect(events.map((event) => event.sequence)).toEqual(events.map((_, i) => i + 1));
      expect(state.sequence).toBe(events.length);
      for (const { before, step } of moments) expect(step.state.sequence).toBe(before.sequence + step.events.length);
    });
  });

  it('2: exactly one terminal event, and it is the last', () => {
    checked(fc.tuple(history, closings), ([{ events, moments, state }, closing]) => {
      expect(terminals(events)).toHaveLength(isTerminal(state.state) ? 1 : 0);
      for (const { before, step } of moments) if (isTerminal(before.state)) expect(step.state).toBe(before);
      const all = [...events, ...seal(state, closing).events];
      expect(terminals(all)).toEqual(all.slice(-1));
      expect(isTerminal(seal(state, closing).state.state)).toBe(true);
    });
  });

  it('2: every reader seals an unfinished log with the same end', () => {
    checked(fc.tuple(history, closings), ([{ state }, closing]) => {
      const [a, b] = [seal(state, closing), seal(throughJson(state), closing)];
      expect(b).toEqual(throughJson(a));
      expect(a.events).toHaveLength(isTerminal(state.state) ? 0 : 1);
      if (isTerminal(state.state)) return;
      const cancelling = state.state === 'cancelling';
      expect(a.events[0]).toMatchObject(
        cancelling
          ? { type: 'run.cancelled', data: { confirmation: 'lost' } }
          : { type: 'run.failed', data: { code: 'TERMINATED' } },
      );
      expect(a.state.open).toBeUndefined();
    });
  });

  it('3: nothing of a provider is logged before its host was announced, checked what is required, and called it', () => {
    const fromProvider = ['output.text.delta', 'output.text.done', 'artifact.created', 'action.required'];
    checked(history, ({ events }) => {
      const started = events.findIndex((event) => event.type === 'run.started');
      const first = events.findIndex((event) => fromProvider.includes(event.type) || event.type === 'run.completed');
      if (first >= 0) expect(started).toBeGreaterThanOrEqual(0);
      if (first >= 0) expect(started).toBeLessThan(first);
      expect(events.filter((event) => event.type === 'run.started').length).toBeLessThanOrEqual(1);
    });
    const levels = fc.constantFrom('native', 'emulated', 'degraded', 'unsupported');
    const names = fc.constantFrom('action.input', 'extension.mcp', 'toString', 'own.thing');
    checked(fc.tuple(fc.dictionary(names, levels), fc.array(names)), ([capabilities, required]) => {
      const missing = unsupportedOf({ capabilities: capabilities as Record<string, 'native'> }, required);
      for (const name of required) {
        const level = Object.hasOwn(capabilities, name) ? capabilities[name] : 'unsupported';
        expect(missing.includes(name)).toBe(level === 'unsupported');
      }
    });
  });

  // Invariant 4 is the client's; that equal requests, and no others, have equal canonical JSON is held in json.test.ts.

  it('5: a cancel is a request; run.cancelled confirms it', () => {
    checked(history, ({ moments }) => {
      for (const { input, before, step } of moments) {
        const cancelled = step.events.some((event) => event.type === 'run.cancelled');
        if (cancelled) {
          expect(before.state).toBe('cancelling');
          expect(before.ending).toMatchObject({ by: 'cancel' });
          expect(input).toMatchObject({ kind: 'mark', mark: { kind: 'stopped' } });
        }
        if (before.state === 'cancelling') expect(['cancelling', 'cancelled']).toContain(step.state.state);
        if (input.kind === 'signal' && input.name === 'cancel') {
          expect(step.events).toEqual([]);
          if (!isTerminal(before.state) && before.ending === undefined) expect(step.state.state).toBe('cancelling');
        }
      }
    });
  });

  it('6: what a provider sends never redefines what the contract says', () => {
    checked(history, ({ moments }) => {
      for (const moment of moments) {
        for (const event of moment.step.events) {
          checkShape(event);
          if (event.type !== 'provider.event') continue;
          const name = String(event.data.name);
          if (nativeNameProblem(name) === undefined) continue;
          // What bears one of our names was made here: for an attempt that starts, or an action that goes.
          expect(['runtime.recovered', 'runtime.action_withdrawn', 'runtime.session_lost']).toContain(name);
          expect(Object.keys(event.data)).not.toContain('of');
        }
      }
    });
  });

  it('6: only the host of the current attempt adds anything, and only in order', () => {
    checked(history, ({ moments }) => {
      const seen = new Set<string>();
      for (const moment of moments) {
        if (!signalled(moment, 'append') || moment.input.kind !== 'signal') continue;
        const { token, batch } = Object(moment.input.args[0]) as { token?: unknown; batch?: unknown };
        const { before, step } = moment;
        if (token !== before.host?.token) expect(step.state).toBe(before);
        if (step.state === before) continue;
        expect(seen.has(`${String(token)} ${String(batch)}`)).toBe(false);
        seen.add(`${String(token)} ${String(batch)}`);
      }
    });
  });

  it('7: artifact ids are unique, and each listed artifact has exactly one creation event', () => {
    checked(history, ({ events, state }) => {
      const created = events.flatMap((event) => (event.type === 'artifact.created' ? [event.data.id] : []));
      unique(created);
      expect(state.artifacts).toEqual(created);
    });
  });

  it('8: of any number of cancels one decides, and one end comes of them', () => {
    checked(history, ({ events, moments }) => {
      let decided = 0;
      for (const { before, step } of moments) {
        if (before.ending === undefined && step.state.ending !== undefined) decided++;
        if (before.ending !== undefined) expect(step.state.ending).toEqual(before.ending);
      }
      expect(decided).toBeLessThanOrEqual(1);
      expect(events.filter((event) => event.type === 'run.cancelled').length).toBeLessThanOrEqual(decided);
    });
  });

  it('8: once a cancel or timeout is decided, nothing but its end is logged', () => {
    checked(history, ({ moments }) => {
      for (const { before, step } of moments) {
        if (before.ending === undefined) continue;
        expect(step.entries).toEqual([]);
        expect(step.state.open).toBeUndefined();
        expect(step.events.filter((event) => !isTerminalEvent(event))).toEqual([]);
        if (before.ending.by === 'timeout')
          for (const event of step.events)
            expect(event).toMatchObject({ type: 'run.failed', data: { code: 'EXECUTION_TIMEOUT' } });
      }
    });
  });

  it('9: an action is answered at most once, and only while it is open', () => {
    checked(history, ({ events, moments }) => {
      unique(actionIds(events, 'action.required'));
      unique(actionIds(events, 'action.responded'));
      const winners = new Map<string, string>();
      for (const { input, before, step } of moments) {
        const verdict = step.verdict?.verdict;
        if (verdict === undefined || input.kind !== 'signal') {
          const expired = step.events.filter((event) => event.type === 'action.responded');
          for (const event of expired) {
            expect(event.data).toMatchObject({ actionId: before.open?.request.id, expired: true });
            expect(input).toMatchObject({ kind: 'mark', mark: { kind: 'expired' } });
          }
          continue;
        }
        const { actionId, responseId } = input.args[0] as { actionId: string; responseId: string };
        const applied = actionIds(step.events, 'action.responded');
        expect(applied).toEqual(verdict.accepted && before.open?.request.id === actionId ? [actionId] : []);
        if (applied.length > 0) winners.set(actionId, responseId);
        if (verdict.accepted) expect(winners.get(actionId)).toBe(responseId);
        else expect(step.state).toBe(before);
        if (!verdict.accepted && winners.has(actionId)) expect(verdict.code).toBe('ACTION_ALREADY_RESOLVED');
      }
    });
  });
});

describe('the reducer', () => {
  it('moves only along the arrows, and waits exactly while an action is open', () => {
    checked(history, ({ first, moments }) => {
      for (const { state } of [first, ...moments.map((moment) => moment.step)]) {
        expect(state.open !== undefined).toBe(isAwaiting(state.state));
        if (state.open !== undefined) expect(state.state).toBe(`awaiting_${state.open.request.kind}`);
        expect(state.result !== undefined).toBe(isTerminal(state.state));
        expect(state.hasStarted && ['queued', 'starting'].includes(state.state)).toBe(false);
      }
      for (const { before, step } of moments) {
        expect(walk(before.state, step.state.state)).toBeDefined();
        if (step.state.state === 'succeeded') expect(step.state.hasStarted).toBe(true);
      }
    });
  });

  it('changes nothing in silence: an event, an entry or an answer always moves the head', () => {
    checked(history, ({ moments }) => {
      for (const { before, step } of moments) {
        const effects = step.events.length + step.entries.length;
        if (effects > 0) expect(step.state.head).not.toBe(before.head);
        if (step.state.head === before.head) expect(withoutBatch(step.state)).toEqual(withoutBatch(before));
      }
    });
  });

  it('alters no state that it was given', () => {
    checked(history, ({ first, moments }) => {
      let text = JSON.stringify(first.state);
      for (const { before, step } of moments) {
        expect(JSON.stringify(before)).toBe(text);
        text = JSON.stringify(step.state);
      }
    });
  });

  it('goes on the same from a state that passed through JSON, at any point (a rollover, a late reader)', () => {
    checked(fc.tuple(history, fc.nat()), ([{ first, moments, state, events }, where]) => {
      const cut = where % (moments.length + 1);
      let carried = throughJson(cut === 0 ? first.state : moments[cut - 1]!.step.state);
      const rest: LogEvent[] = [];
      for (const { input, step } of moments.slice(cut)) {
        const again = reduce(carried, input);
        expect(again.verdict).toEqual(step.verdict);
        rest.push(...again.events);
        carried = again.state;
      }
      expect(carried.head).toBe(state.head);
      expect(throughJson(carried)).toEqual(throughJson(state));
      expect(throughJson(rest)).toEqual(throughJson(events.slice(events.length - rest.length)));
    });
  });

  it('never throws, whatever comes', () => {
    checked(fc.tuple(history, fc.array(junk, { maxLength: 10 })), ([{ state }, inputs]) => {
      let at = state;
      for (const input of inputs) at = reduce(at, input).state;
      JSON.stringify(at);
    });
  });

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['a cycle', cycle()],
    ['20,000 levels', deep(20_000)],
    ['a key __proto__', JSON.parse('{"token":"token-1","batch":2,"items":[],"__proto__":{"items":[{}]}}')],
    ['a proxy that throws', new Proxy({}, { get: () => undefined, ownKeys: () => [] })],
  ])('takes %s for any argument', (_, argument) => {
    const log = new Log().start();
    log.ask('act_1');
    const { state } = log;
    for (const name of ['announce', 'append', 'respond', 'unknown']) {
      const given = [
        argument,
        { token: 'token-1', batch: 2, items: argument },
        { token: 'token-1', batch: 2, items: [{ kind: 'record', entry: argument }] },
        { responseId: 'resp_1', actionId: 'act_1', response: argument },
        { responseId: 'resp_1', actionId: 'act_1', response: { approved: true, value: argument } },
      ];
      for (const args of given.map((one) => [one])) {
        const step = reduce(state, { kind: 'signal', name, args });
        expect(isTerminal(step.state.state)).toBe(false);
      }
      expect(reduce(state, { kind: 'signal', name, args: [] }).state).toBe(state);
    }
    for (const value of [argument, { kind: 'settled', attempt: 1, result: argument }])
      expect(reduce(state, { kind: 'mark', mark: value }).state).toBe(state);
  });

  it('reaches every corner in these tests', () => {
    const reached = new Map<string, number>();
    checked(
      history,
      (played) => {
        for (const corner of cornersOf(played)) reached.set(corner, (reached.get(corner) ?? 0) + 1);
      },
      1000,
    );
    for (const corner of CORNERS) expect(reached.get(corner) ?? 0, corner).toBeGreaterThan(0);
  });
});

describe('the size of the state', () => {
  const LIMIT = 2 * 1024 * KIB;

  it('stays below what one payload may hold, with everything at its bound at once', () => {
    const state = atItsBounds();
    const sizes = Object.fromEntries(Object.entries(state).map(([key, value]) => [key, jsonBytes(value)]));
    const at = new Date().toISOString();
    const times = { createdAt: at, updatedAt: at, startedAt: at, endedAt: at };
    const carry = {
      state,
      times: { ...times, actions: Object.fromEntries(Object.keys(state.actions).map((id) => [id, at])) },
    };
    // The segments of the runs before travel beside it: 100 bytes each.
    expect(jsonBytes(carry), JSON.stringify(sizes)).toBeLessThan(LIMIT - 64 * KIB);
    expect(jsonBytes(state.transcript)).toBeGreaterThan(MAX_TRANSCRIPT_BYTES - KIB);
    expect(state.open).toBeDefined();
    expect(Object.keys(state.actions)).toHaveLength(MAX_ACTIONS - 1);
    expect(state.artifacts).toHaveLength(MAX_ARTIFACTS);
  });

  it('does not grow with text, entries or questions without end', () => {
    const log = new Log().start('journal');
    const text = '\u{1F600}\n\u0001'.repeat(2 * KIB);
    for (let i = 0; i < 200; i++) {
      log.append({ kind: 'text', text }, { kind: 'record', entry: text });
      log.ask(`act_${i}`, { kind: 'input', payload: text.slice(0, 8 * KIB) });
      log.respond(`act_${i}`, { value: text.slice(0, 8 * KIB) });
    }
    const { request, actions, ...rest } = log.state;
    expect(jsonBytes(rest)).toBeLessThan(1100 * KIB);
    expect(Object.keys(actions)).toHaveLength(200);
  });
});

/** Everything that a caller and a host may put in, each as long as its edge lets it through. */
function atItsBounds(): LogState {
  const filled = (bytes: number) => 'x'.repeat(bytes - 200);
  const id = (prefix: string, n: number, length: number) => `${prefix}_${n}_`.padEnd(length, 'z');
  const log = new Log({
    input: filled(MAX_REQUEST_BYTES - MAX_CONFIG_BYTES - 16 * KIB),
    config: { script: filled(MAX_CONFIG_BYTES) },
    metadata: { note: filled(16 * KIB) },
    requiredCapabilities: Array.from({ length: 100 }, (_, i) => `own.${i}-`.padEnd(100, 'c')),
    needsTurn: true,
  });
  const turn = (i: number) => ({ executionId: id('exec', i, 31), input: filled(16 * KIB), output: filled(16 * KIB) });
  log.signal('turn', { session: filled(MAX_SESSION_BYTES), transcript: [turn(0), turn(1)] });
  log.signal('announce', {
    attempt: 1,
    token: 't'.repeat(128),
    queue: 'q'.repeat(1000),
    watchQueue: 'w'.repeat(1000),
    providerVersion: 'v'.repeat(100),
    capabilities: Object.fromEntries(Array.from({ length: 100 }, (_, i) => [`own.${i}`.padEnd(100, 'c'), 'degraded'])),
    effectiveConfig: { script: filled(MAX_CONFIG_BYTES) },
    recovery: 'journal',
  });
  log.append({ kind: 'started' }, { kind: 'session', session: filled(MAX_SESSION_BYTES) });
  for (let i = 0; i < MAX_ARTIFACTS; i++) log.append({ kind: 'artifact', artifact: artifact(id('art', i, 128)) });
  const answerTo = (n: number, payload: Json, value: Json) => {
    const actionId = id('act', n, 30);
    log.ask(actionId, { kind: 'input', payload });
    log.respond(actionId, { value }, id('resp', n, 128));
  };
  for (let i = 0; i < MAX_ACTIONS - 2; i++) answerTo(i, null, 1);
  // Text on both sides of the last entry, each up to just before it is cut.
  const fill = () => {
    for (let i = 0; i < 3; i++) log.say(filled(MAX_DELTA_BYTES));
    const cut = log.state.textCut;
    while (jsonBytes(log.state.text) < 271 * KIB) log.say('y'.repeat(500));
    expect(log.state.textCut).toBe(cut);
  };
  fill();
  const entries = MAX_CARRIED_JOURNAL_BYTES / (64 * KIB);
  for (let i = 0; i < entries; i++) log.append({ kind: 'record', entry: filled(64 * KIB) });
  for (let i = 0; i < 2; i++) log.say(filled(MAX_DELTA_BYTES));
  fill();
  answerTo(MAX_ACTIONS - 2, filled(MAX_ACTION_BYTES), filled(MAX_RESPONSE_BYTES));
  log.append({
    kind: 'action',
    action: actionRequest(id('act', MAX_ACTIONS, 30), { payload: filled(MAX_ACTION_BYTES) }),
  });
  expect(log.state.answers).toHaveLength(1);
  expect(log.state.journal.entries).toHaveLength(entries);
  const cancelled = reduce(log.state, { kind: 'signal', name: 'cancel', args: ['\u0001'.repeat(MAX_MESSAGE_LENGTH)] });
  expect(jsonBytes(cancelled.state)).toBeLessThan(jsonBytes(log.state));
  return log.state;
}

/** A batch without effect still counts as seen; the head covers effects. */
function withoutBatch(state: LogState): LogState {
  return state.host === undefined ? state : { ...state, host: { ...state.host, lastBatch: 0 } };
}

function cycle(): unknown {
  const one: { self?: unknown } = {};
  one.self = one;
  return one;
}

function deep(levels: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < levels; i++) value = [value];
  return value;
}

const CORNERS = [
  'succeeded',
  'failed',
  'cancelled',
  'timed out',
  'provider lost',
  'refused',
  'answered',
  'expired',
  'audited',
  'withdrawn',
  'recovered',
  'recorded',
  'suspended',
  'adopted',
  'VALIDATION_ERROR',
  'ACTION_NOT_FOUND',
  'ACTION_ALREADY_RESOLVED',
  'INVALID_STATE',
];

/** What of interest happened in a history: that the generator reaches it all is itself worth a test. */
function cornersOf({ events, moments, state }: History): string[] {
  const code = state.result !== undefined && 'code' in state.result ? state.result.code : undefined;
  const corners = [
    state.state,
    code === 'EXECUTION_TIMEOUT' && 'timed out',
    code === 'PROVIDER_LOST' && 'provider lost',
    code === 'CAPABILITY_UNSUPPORTED' && 'refused',
    actionIds(events, 'action.responded').length > 0 && 'answered',
    events.some((event) => event.type === 'provider.event' && event.data.name === 'runtime.recovered') && 'recovered',
    Object.values(state.actions).some((action) => action.how === 'withdrawn') && 'withdrawn',
    Object.values(state.actions).some((action) => action.how === 'expired') && 'expired',
    events.some((event) => event.type === 'action.responded' && event.data.metadata !== undefined) && 'audited',
    moments.some((moment) => moment.step.entries.length > 0) && 'recorded',
    moments.some((moment) => moment.step.state.host?.suspended) && 'suspended',
    moments.some(({ before, step }) => (step.state.open?.attempt ?? 0) > (before.open?.attempt ?? 9)) && 'adopted',
    ...moments.map(({ step }) => step.verdict?.verdict).map((verdict) => verdict?.accepted === false && verdict.code),
  ];
  return corners.filter((corner): corner is string => typeof corner === 'string');
}
