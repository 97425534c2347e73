import { describe, expect, it } from 'vitest';
import { type ActionResponse, chosenOptionId } from '../../protocol/action.js';
import type { Json } from '../../protocol/json.js';
import { MAX_RESPONSE_BYTES } from '../../protocol/limits.js';
import { sameQuestion } from '../../protocol/log/answers.js';
import { actionRequest, Log } from './log-driver.js';

const option = (id: string, kind: string) => ({ id, name: id, kind });
const ONCE = [option('yes', 'allow_once'), option('always', 'allow_always'), option('no', 'reject_once')];
const TWO_YES = [option('once', 'allow_once'), option('sandboxed', 'allow_once'), option('no', 'reject_once')];

/** A log that waits for the answer to `act_1`. */
function asking(kind: 'approval' | 'input', payload: Json = {}): Log {
  const log = new Log().start();
  log.ask('act_1', { kind, payload });
  return log;
}

const ACCEPTED: [string, 'approval' | 'input', Json, ActionResponse][] = [
  ['a yes', 'approval', {}, { approved: true }],
  ['a no', 'approval', {}, { approved: false }],
  ['a yes with a value besides', 'approval', null, { approved: true, value: 'go on' }],
  ['a yes with metadata', 'approval', [], { approved: true, metadata: { by: 'ada' } }],
  ['a yes where one option fits', 'approval', { options: ONCE }, { approved: true }],
  ['a no where one option fits', 'approval', { options: TWO_YES }, { approved: false }],
  ['the named option', 'approval', { options: TWO_YES }, { approved: true, value: { optionId: 'sandboxed' } }],
  ['a named "always"', 'approval', { options: ONCE }, { approved: true, value: { optionId: 'always' } }],
  ['a no where nothing rejects', 'approval', { options: [option('yes', 'allow_once')] }, { approved: false }],
  ['options that are none', 'approval', { options: [7, { id: 'x' }] }, { approved: true }],
  ['options that are no list', 'approval', { options: 'yes' }, { approved: true }],
  ['the value false', 'input', {}, { value: false }],
  ['the value 0', 'input', {}, { value: 0 }],
  ['the value ""', 'input', {}, { value: '' }],
  ['the value []', 'input', {}, { value: [] }],
  ['the value {}', 'input', {}, { value: {} }],
  ['the value null', 'input', {}, { value: null }],
  ['a value beside approved', 'input', {}, { approved: false, value: 1 }],
];

const REFUSED: [string, 'approval' | 'input', Json, Json, RegExp][] = [
  ['no approved', 'approval', {}, {}, /an approval needs "approved"/],
  ['a value alone', 'approval', {}, { value: true }, /an approval needs "approved"/],
  ['approved: "true"', 'approval', {}, { approved: 'true' }, /"approved"/],
  ['approved: 1', 'approval', {}, { approved: 1 }, /"approved"/],
  ['approved: null', 'approval', {}, { approved: null }, /"approved"/],
  ['an unknown key', 'approval', {}, { approved: true, aproved: true }, /aproved/],
  ['a bare true', 'approval', {}, true, /expected object/i],
  ['nothing', 'approval', {}, null, /expected object/i],
  ['a list', 'approval', {}, [{ approved: true }], /expected object/i],
  ['one of several equal options unnamed', 'approval', { options: TWO_YES }, { approved: true }, /several options fit/],
  [
    'an option by name only',
    'approval',
    { options: TWO_YES },
    { approved: true, value: 'once' },
    /several options fit/,
  ],
  [
    'an unknown option',
    'approval',
    { options: ONCE },
    { approved: true, value: { optionId: 'maybe' } },
    /one of "yes"/,
  ],
  [
    'an option that is no text',
    'approval',
    { options: ONCE },
    { approved: true, value: { optionId: 1 } },
    /must be one/,
  ],
  ['yes to a rejecting option', 'approval', { options: ONCE }, { approved: true, value: { optionId: 'no' } }, /agree/],
  ['no to an allowing option', 'approval', { options: ONCE }, { approved: false, value: { optionId: 'yes' } }, /agree/],
  ['an option without approved', 'approval', { options: ONCE }, { value: { optionId: 'yes' } }, /needs "approved"/],
  ['no value', 'input', {}, {}, /an input needs "value"/],
  ['only approved', 'input', {}, { approved: true }, /an input needs "value"/],
  ['too much', 'input', {}, { value: 'x'.repeat(MAX_RESPONSE_BYTES) }, /at most 65536/],
];

describe('an answer to an open action', () => {
  it.each(ACCEPTED)('may be %s', (_, kind, payload, response) => {
    const log = asking(kind, payload);
    expect(log.respond('act_1', response)).toEqual({ accepted: true });
    expect(log.state).toMatchObject({ state: 'running', answers: [{ response }] });
    expect(log.state.open).toBeUndefined();
    const approved = kind === 'approval' ? { approved: response.approved } : {};
    expect(log.events.at(-1)).toMatchObject({ type: 'action.responded', data: { actionId: 'act_1', ...approved } });
    // The value may be private.
    expect(Object.keys(log.events.at(-1)?.data ?? {})).not.toContain('value');
  });

  it.each(REFUSED)('may not be %s; the action stays open', (_, kind, payload, response, message) => {
    const log = asking(kind, payload);
    const before = log.state;
    expect(log.respond('act_1', response)).toMatchObject({ accepted: false, code: 'VALIDATION_ERROR' });
    expect(log.respond('act_1', response)).toHaveProperty('message', expect.stringMatching(message));
    expect(log.state).toBe(before);
    const good = { approved: true, value: { optionId: 'once' } };
    const fitting =
      kind === 'input' ? { value: 'x' } : payload === null || !isTwoYes(payload) ? { approved: true } : good;
    expect(log.respond('act_1', fitting, 'resp_2')).toEqual({ accepted: true });
  });

  it('is part of the head, value and all', () => {
    const headAfter = (value: Json, responseId?: string) => {
      const log = asking('input');
      log.respond('act_1', { value }, responseId);
      return log.state.head;
    };
    expect(headAfter(1)).toBe(headAfter(1));
    expect(headAfter(1)).not.toBe(headAfter(2));
    expect(headAfter(1)).not.toBe(headAfter(1, 'resp_2'));
  });

  it('needs a response id that is an id', () => {
    const log = asking('approval');
    for (const responseId of ['a b', '\u0000', 'ä', "x' OR 'y"])
      expect(log.respond('act_1', { approved: true }, responseId)).toMatchObject({ code: 'VALIDATION_ERROR' });
    // Without one that can be told back there is no verdict at all.
    for (const responseId of ['', 'x'.repeat(129)])
      expect(log.respond('act_1', { approved: true }, responseId)).toBeUndefined();
    expect(log.state.open?.request.id).toBe('act_1');
  });
});

describe('of several answers', () => {
  it('one wins, and its response id gets the same verdict for ever', () => {
    const log = asking('approval');
    expect(log.respond('act_1', { approved: false }, 'resp_a')).toEqual({ accepted: true });
    const lost = { accepted: false, code: 'ACTION_ALREADY_RESOLVED', how: 'answered', approved: false };
    expect(log.respond('act_1', { approved: true }, 'resp_b')).toMatchObject(lost);
    expect(log.respond('act_1', { approved: false }, 'resp_a')).toEqual({ accepted: true });
    expect(log.respond('act_1', { approved: true }, 'resp_a')).toEqual({ accepted: true });
    log.append({ kind: 'taken', actionId: 'act_1' }, { kind: 'completed' });
    expect(log.state.state).toBe('succeeded');
    expect(log.respond('act_1', { approved: true }, 'resp_a')).toEqual({ accepted: true });
    expect(log.respond('act_1', { approved: true }, 'resp_b')).toMatchObject(lost);
    expect(log.types().filter((type) => type === 'action.responded')).toHaveLength(1);
  });

  it('a refused one may be sent again, mended, under the same id', () => {
    const log = asking('approval');
    expect(log.respond('act_1', {}, 'resp_a')).toMatchObject({ code: 'VALIDATION_ERROR' });
    expect(log.respond('act_1', { approved: true }, 'resp_a')).toEqual({ accepted: true });
  });

  it('one response id may answer two actions', () => {
    const log = asking('approval');
    expect(log.respond('act_1', { approved: true }, 'resp_a')).toEqual({ accepted: true });
    log.append({ kind: 'taken', actionId: 'act_1' });
    log.ask('act_2');
    expect(log.respond('act_2', { approved: false }, 'resp_a')).toEqual({ accepted: true });
  });
});

describe('a late answer', () => {
  const answer = (log: Log) => log.respond('act_1', { approved: true }, 'resp_late');

  it('to an action that never was is ACTION_NOT_FOUND, in every state', () => {
    const log = new Log();
    for (const id of ['act_1', '__proto__', 'constructor', 'x y'])
      expect(log.respond(id, { approved: true })).toMatchObject({ code: 'ACTION_NOT_FOUND' });
    log.start().append({ kind: 'completed' });
    expect(answer(log)).toMatchObject({ code: 'ACTION_NOT_FOUND' });
  });

  it('to one its provider took back is ACTION_ALREADY_RESOLVED, and INVALID_STATE after the end', () => {
    const log = asking('approval');
    log.append({ kind: 'withdraw', actionId: 'act_1' });
    expect(log.named('runtime.action_withdrawn')).toEqual([{ name: 'runtime.action_withdrawn', actionId: 'act_1' }]);
    expect(log.state.state).toBe('running');
    expect(answer(log)).toMatchObject({ code: 'ACTION_ALREADY_RESOLVED', how: 'withdrawn' });
    log.append({ kind: 'completed' });
    expect(answer(log)).toMatchObject({ code: 'INVALID_STATE', how: 'withdrawn' });
  });

  it('to one withdrawn by a cancel is INVALID_STATE, while cancelling and after', () => {
    const log = asking('approval');
    log.signal('cancel', { reason: 'enough' });
    expect(log.state.open).toBeUndefined();
    expect(answer(log)).toMatchObject({ code: 'INVALID_STATE', how: 'withdrawn' });
    log.mark({ kind: 'stopped', confirmation: 'cooperative' });
    expect(answer(log)).toMatchObject({ code: 'INVALID_STATE', how: 'withdrawn' });
    expect(log.types()).not.toContain('action.responded');
  });

  it('to one withdrawn by a timeout is INVALID_STATE after the end', () => {
    const log = asking('input');
    log.mark({ kind: 'timeout' });
    expect(answer(log)).toMatchObject({ code: 'ACTION_ALREADY_RESOLVED', how: 'withdrawn' });
    log.mark({ kind: 'stopped', confirmation: 'forced' });
    expect(log.events.at(-1)).toMatchObject({ type: 'run.failed', data: { code: 'EXECUTION_TIMEOUT' } });
    expect(answer(log)).toMatchObject({ code: 'INVALID_STATE', how: 'withdrawn' });
  });

  it.each(['completed', 'failed'] as const)('to one that was open when its run %s is INVALID_STATE', (kind) => {
    const log = asking('approval');
    log.append(kind === 'failed' ? { kind, code: 'PROVIDER_ERROR', message: 'no' } : { kind });
    expect(answer(log)).toMatchObject({ code: 'INVALID_STATE', how: 'withdrawn' });
    // The end says enough: nothing else is on record.
    expect(log.named('runtime.action_withdrawn')).toEqual([]);
  });

  it('to one that was answered before a cancel stays ACTION_ALREADY_RESOLVED', () => {
    const log = asking('approval');
    log.respond('act_1', { approved: true }, 'resp_first');
    log.signal('cancel');
    expect(answer(log)).toMatchObject({ code: 'ACTION_ALREADY_RESOLVED', how: 'answered', approved: true });
    log.mark({ kind: 'stopped', confirmation: 'lost' });
    expect(answer(log)).toMatchObject({ code: 'ACTION_ALREADY_RESOLVED', how: 'answered', approved: true });
  });

  it('that is malformed gets the verdict of its action, not of its shape', () => {
    const log = asking('approval');
    log.respond('act_1', { approved: true }, 'resp_first');
    expect(log.respond('act_1', { approved: 'x' }, 'resp_b')).toMatchObject({ code: 'ACTION_ALREADY_RESOLVED' });
  });
});

describe('questions', () => {
  it('are the same when kind, title and payload are, whatever the order of keys', () => {
    const a = actionRequest('act_1', { payload: { x: 1, y: [2] } });
    expect(sameQuestion(a, actionRequest('act_2', { payload: { y: [2], x: 1 }, description: 'other words' }))).toBe(
      true,
    );
    for (const other of [{ kind: 'input' as const }, { title: 'Other?' }, { payload: { x: 1, y: [3] } }])
      expect(sameQuestion(a, actionRequest('act_1', { payload: { x: 1, y: [2] }, ...other }))).toBe(false);
  });

  it('name an option only as text', () => {
    expect(chosenOptionId({ approved: true, value: { optionId: 'yes' } })).toBe('yes');
    for (const value of [null, 'yes', ['yes'], { optionId: 1 }, {}, undefined])
      expect(chosenOptionId(value === undefined ? {} : { value })).toBeUndefined();
  });

  it('come one at a time from an attempt', () => {
    const log = asking('approval');
    log.ask('act_2');
    expect(log.state.open?.request.id).toBe('act_1');
    expect(log.types().filter((type) => type === 'action.required')).toHaveLength(1);
  });
});

function isTwoYes(payload: Json): boolean {
  return JSON.stringify(payload).includes('sandboxed');
}
