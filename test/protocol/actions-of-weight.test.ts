/** What an action may bring along: a time, a digest, a schema for its value; and an answer: who gave it, and on what. */
import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { AskedAction } from '../../protocol/action.js';
import { digestOf } from '../../protocol/digest.js';
import { canonicalJson, type Json } from '../../protocol/json.js';
import { valueProblem, valueSchemaProblem } from '../../protocol/value-schema.js';
import { checked } from './checked.js';
import { Log } from './log-driver.js';

const SOON = '2026-01-01T00:00:10.000Z';

function asking(fields: Partial<AskedAction>, suspend = false): Log {
  const log = new Log().start('journal');
  log.ask('act_1', fields, suspend);
  return log;
}

describe('the digest of an action', () => {
  it("is the SHA-256 of its payload's canonical JSON, as any reader computes it", () => {
    const json = fc.jsonValue({ stringUnit: 'binary' }) as fc.Arbitrary<Json>;
    checked(json, (payload) => {
      expect(digestOf(payload)).toBe(createHash('sha256').update(canonicalJson(payload)).digest('hex'));
    });
    for (let length = 0; length < 200; length++)
      expect(digestOf('ä'.repeat(length))).toBe(
        createHash('sha256')
          .update(`"${'ä'.repeat(length)}"`)
          .digest('hex'),
      );
  });

  it('stands in the request, whatever the order of keys, and cannot be given by a host', () => {
    const digest = digestOf({ a: 1, b: [2] });
    const log = asking({ payload: { b: [2], a: 1 } });
    expect(log.events.at(-1)).toMatchObject({ type: 'action.required', data: { digest } });
    expect(log.state.open?.request.digest).toBe(digest);
    const forged = new Log().start();
    forged.ask('act_1', { digest: 'f'.repeat(64) } as Partial<AskedAction>);
    expect(forged.state.open).toBeUndefined();
  });

  it('may be expected by an answer: another one is INVALID_STATE, and the action stays open', () => {
    const log = asking({ payload: { amount: 5 } });
    const before = log.state;
    const other = { approved: true, expectedDigest: digestOf({ amount: 50 }) };
    expect(log.respond('act_1', other)).toMatchObject({ accepted: false, code: 'INVALID_STATE' });
    const none = { approved: true, expectedDigest: 'mine' };
    expect(log.respond('act_1', none)).toMatchObject({ accepted: false, code: 'VALIDATION_ERROR' });
    expect(log.state).toBe(before);
    const seen = { approved: true, expectedDigest: digestOf({ amount: 5 }) };
    expect(log.respond('act_1', seen)).toEqual({ accepted: true });
    // The provider gets the answer alone.
    expect(log.state.answers[0]?.response).toEqual({ approved: true });
  });
});

describe('who answered, and why', () => {
  const metadata = { by: 'ada', why: 'looked at it' };

  it('is in the log when the answer asks for it, and the value never is', () => {
    const log = asking({ kind: 'input' });
    log.respond('act_1', { value: 'secret', metadata, audit: true });
    expect(log.events.at(-1)).toMatchObject({ type: 'action.responded', data: { actionId: 'act_1', metadata } });
    expect(JSON.stringify(log.events.at(-1))).not.toContain('secret');
    expect(log.state.answers[0]?.response).toEqual({ value: 'secret', metadata });
  });

  it.each([{}, { audit: false }])('is not when it does not: %j', (more) => {
    const log = asking({});
    log.respond('act_1', { approved: false, metadata, ...more });
    expect(log.events.at(-1)?.data).toEqual({ actionId: 'act_1', approved: false });
    expect(log.state.answers[0]?.response).toEqual({ approved: false, metadata });
  });
});

describe('an action that expires', () => {
  const no = { approved: false, metadata: { expired: true } };

  it.each(['approval', 'input'] as const)('is a no that the provider gets, once (%s)', (kind) => {
    const log = asking({ kind, expiresAt: SOON });
    log.mark({ kind: 'expired', actionId: 'act_1' });
    const approved = kind === 'approval' ? { approved: false } : {};
    expect(log.events.at(-1)?.data).toEqual({ actionId: 'act_1', ...approved, expired: true });
    expect(log.state).toMatchObject({ state: 'running', answers: [{ response: no, suspended: false }] });
    expect(log.state.open).toBeUndefined();
    const { state } = log;
    log.mark({ kind: 'expired', actionId: 'act_1' });
    expect(log.state).toBe(state);
    const late = { accepted: false, code: 'ACTION_ALREADY_RESOLVED', how: 'expired', ...approved };
    expect(log.respond('act_1', { approved: true, value: 1 })).toMatchObject(late);
    log.append({ kind: 'completed' });
    expect(log.respond('act_1', { approved: true, value: 1 })).toMatchObject(late);
  });

  it('while suspended, starts the next attempt as an answer would', () => {
    const log = asking({ expiresAt: SOON }, true);
    log.mark({ kind: 'expired', actionId: 'act_1' });
    expect(log.state).toMatchObject({ state: 'running', answers: [{ response: no, suspended: true }] });
  });

  it('with onExpiry "fail" ends the execution once it is stopped, and nothing more of the provider is logged', () => {
    const log = asking({ expiresAt: SOON, onExpiry: 'fail' });
    log.mark({ kind: 'expired', actionId: 'act_1' });
    expect(log.events.at(-1)).toMatchObject({ type: 'action.responded', data: { expired: true } });
    expect(log.state).toMatchObject({ ending: { by: 'timeout', expired: 'act_1' }, answers: [] });
    log.say('too late');
    log.mark({ kind: 'stopped', confirmation: 'cooperative' });
    expect(log.types().slice(-2)).toEqual(['action.responded', 'run.failed']);
    expect(log.events.at(-1)?.data).toMatchObject({
      code: 'EXECUTION_TIMEOUT',
      message: expect.stringMatching(/act_1/),
    });
  });

  it('and an answer: whichever comes first counts', () => {
    const log = asking({ expiresAt: SOON });
    expect(log.respond('act_1', { approved: true })).toEqual({ accepted: true });
    const { state } = log;
    log.mark({ kind: 'expired', actionId: 'act_1' });
    expect(log.state).toBe(state);
  });

  it('is handed out to a recovered attempt that asks the same again', () => {
    const log = asking({ expiresAt: SOON });
    log.lose();
    log.mark({ kind: 'expired', actionId: 'act_1' });
    log.mark({ kind: 'attempt', attempt: 2 });
    log.announce('journal');
    log.append({ kind: 'started' }, { kind: 'adopt', actionId: 'act_1' });
    expect(log.state).toMatchObject({ state: 'running', answers: [{ response: no, attempt: 2 }] });
  });
});

describe("the schema of an input's value", () => {
  const form = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 5, pattern: '^[a-z]+$' },
      age: { type: 'integer', minimum: 0, maximum: 150 },
      tags: { type: 'array', items: { enum: ['a', 'b'] }, uniqueItems: true, maxItems: 2 },
      next: { anyOf: [{ $ref: '#' }, { type: 'null' }] },
    },
    required: ['name'],
    additionalProperties: false,
  };

  it.each<[Json, RegExp | undefined]>([
    [{ name: 'ada' }, undefined],
    [{ name: 'ada', age: 0, tags: ['a', 'b'], next: { name: 'bo', next: null } }, undefined],
    [7, /value: must be object/],
    [{}, /needs "name"/],
    [{ name: '' }, /value\.name: needs at least 1/],
    [{ name: 'abcdef' }, /at most 5/],
    [{ name: 'Ada' }, /must match/],
    [{ name: 'ada', age: 1.5 }, /must be integer/],
    [{ name: 'ada', age: -1 }, /at least 0/],
    [{ name: 'ada', age: 151 }, /at most 150/],
    [{ name: 'ada', tags: ['c'] }, /tags\[0\]: must be one of/],
    [{ name: 'ada', tags: ['a', 'a'] }, /repeats/],
    [{ name: 'ada', tags: ['a', 'b', 'a'] }, /at most 2 items/],
    [{ name: 'ada', next: { name: 'x', next: {} } }, /none of the alternatives/],
    [{ name: 'ada', toString: 1 }, /has no "toString"/],
  ])('decides on %j', (value, problem) => {
    expect(valueSchemaProblem(form)).toBeUndefined();
    const found = valueProblem(form, value);
    if (problem === undefined) expect(found).toBeUndefined();
    else expect(found).toMatch(problem);
    const log = asking({ kind: 'input', valueSchema: form });
    const before = log.state;
    const verdict = log.respond('act_1', { value });
    expect(verdict).toMatchObject(problem === undefined ? { accepted: true } : { code: 'VALIDATION_ERROR' });
    if (problem !== undefined) expect(log.state).toBe(before);
  });

  it.each<[Json, Json, boolean]>([
    [true, 1, true],
    [{ not: { type: 'string' } }, 'x', false],
    [{ oneOf: [{ minimum: 1 }, { maximum: 3 }] }, 2, false],
    [{ allOf: [{ minimum: 1 }, { maximum: 3 }] }, 2, true],
    [{ const: { a: [1] } }, { a: [1] }, true],
    [{ type: ['string', 'null'] }, null, true],
    [{ multipleOf: 0.1 }, 0.3, true],
    [{ multipleOf: 2 }, 3, false],
    [{ exclusiveMinimum: 0, exclusiveMaximum: 1 }, 1, false],
    [{ maxLength: 1 }, '😀', true],
    [{ prefixItems: [{ const: 1 }], items: false }, [1, 2], false],
    [{ propertyNames: { maxLength: 2 } }, { abc: 1 }, false],
    [{ minProperties: 1 }, {}, false],
    [{ $ref: '#/$defs/a~1b', $defs: { 'a/b': { type: 'boolean' } } }, 1, false],
    // For ever, and very often: refused, not hung.
    [{ $ref: '#' }, 1, false],
    [{ anyOf: [{ $ref: '#' }, { $ref: '#' }] }, 1, false],
    [{ pattern: '^a*a*a*$' }, `${'a'.repeat(255)}b`, false],
    [{ pattern: 'a' }, 'a'.repeat(257), false],
  ])('%j on %j: %s', (schema, value, fits) => {
    expect(valueSchemaProblem(schema)).toBeUndefined();
    expect(valueProblem(schema, value) === undefined).toBe(fits);
  });

  it.each<[Json, RegExp]>([
    [7, /must be a JSON Schema/],
    [{ type: 'text' }, /unknown type/],
    [{ properties: { a: { patternProperties: {} } } }, /properties\.a\.patternProperties: this keyword is not taken/],
    [{ minLength: -1 }, /whole number/],
    [{ enum: [] }, /list of values/],
    [{ $ref: 'https://example.org/x' }, /point into this schema/],
    [{ $ref: '#/$defs/none' }, /point into this schema/],
    [{ pattern: '(a+)+$' }, /no groups/],
    [{ pattern: 'a|b' }, /no groups/],
    [{ pattern: 'a?a?a?a?' }, /at most 3/],
    [{ pattern: '[' }, /not a regular expression/],
    [{ multipleOf: 0 }, /must be a number/],
    // What a reference brings in is a schema that was looked at, or it would be one with any keyword and pattern.
    [{ $ref: '#/default', default: { pattern: '(a+)+$' } }, /point into this schema/],
    [{ properties: { a: { $ref: '#/const' } }, const: { pattern: '(' } }, /point into this schema/],
    [{ $ref: '#/properties', properties: { a: {} } }, /point into this schema/],
    [{ $ref: 1 }, /point into this schema/],
  ])('%j is not taken', (schema, problem) => {
    expect(valueSchemaProblem(schema)).toMatch(problem);
  });

  const many = <T>(count: number, make: (i: number) => T): T[] => Array.from({ length: count }, (_, i) => make(i));
  it.each<[string, Json, Json]>([
    ['a pattern that may begin anywhere', { pattern: 'a*a*a*x' }, 'a'.repeat(256)],
    [
      'a pattern for each of many texts',
      { items: { pattern: '^a*a*a*x' } },
      [...many(200, () => 'a'), 'a'.repeat(256)],
    ],
    ['alternatives with a pattern each', { anyOf: many(1_500, (i) => ({ pattern: `^a*a*a*${i}` })) }, 'a'.repeat(256)],
    ['a choice for each of many items', { items: { enum: many(9_000, String) } }, many(9_000, () => 'x')],
    ['a list against many lists', { anyOf: many(3_000, (i) => ({ enum: [[i]] })) }, many(9_000, Number)],
    ['long texts', { allOf: many(3_000, () => ({ minLength: 1 })) }, 'x'.repeat(60_000)],
    [
      'many names',
      { anyOf: many(3_000, () => ({ maxProperties: 1 })) },
      Object.fromEntries(many(8_000, (i) => [i, 1])),
    ],
    ['repeated items', { allOf: many(2_000, () => ({ uniqueItems: true })) }, many(9_000, Number)],
  ])('is checked in a moment, or not at all: %s', (_, schema, value) => {
    expect(valueSchemaProblem(schema)).toBeUndefined();
    const began = performance.now();
    valueProblem(schema, value);
    // Unbounded, each takes many times as long; a workflow task has 2 s before the SDK takes it for stuck.
    expect(performance.now() - began).toBeLessThan(1_500);
  });

  it('refuses what it did not look at to the end, also when that is under a "not"', () => {
    const schema: Json = { not: { allOf: [{ $ref: '#/$defs/loop' }] }, $defs: { loop: { $ref: '#/$defs/loop' } } };
    expect(valueSchemaProblem(schema)).toBeUndefined();
    expect(valueProblem(schema, 1)).toBe('value: takes too long to be checked');
  });

  it('of any kind never makes the check throw or hang', () => {
    const json = fc.jsonValue() as fc.Arbitrary<Json>;
    const keyword = fc.constantFrom(
      'type',
      'items',
      'anyOf',
      'properties',
      '$ref',
      'pattern',
      'enum',
      'required',
      'not',
    );
    const schema = fc.dictionary(keyword, json) as fc.Arbitrary<Json>;
    checked(fc.tuple(schema, json), ([given, value]) => {
      valueSchemaProblem(given);
      if (valueSchemaProblem(given) === undefined) valueProblem(given, value);
    });
  });
});
