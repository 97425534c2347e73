import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { startExecutionRequestSchema } from '../../protocol/execution.js';
import {
  bytesAfter,
  canonicalJson,
  clip,
  type Json,
  jsonBytes,
  jsonObject,
  jsonProblem,
  jsonValue,
  MAX_DEPTH,
  tailWithin,
  throughJson,
  utf8Bytes,
  withoutBeginning,
} from '../../protocol/json.js';
import { checked } from './checked.js';

function nested(depth: number): Json {
  let value: Json = 'core';
  for (let i = 0; i < depth; i++) value = i % 2 === 0 ? [value] : { in: value };
  return value;
}

const ACCEPTED: [string, unknown][] = [
  ['null', null],
  ['false', false],
  ['0', 0],
  ['minus zero', -0],
  ['the empty text', ''],
  ['an empty list', []],
  ['an empty object', {}],
  ['the largest safe integer', 2 ** 53 - 1],
  ['a fraction', 0.1],
  ['a lone surrogate', '\ud83d'],
  ['an object without prototype', Object.assign(Object.create(null), { a: 1 })],
  ['100 levels', nested(100)],
];

const REFUSED: [string, unknown, RegExp][] = [
  ['a key __proto__', JSON.parse('{"a":{"__proto__":{"admin":true}}}'), /^a: the key "__proto__" is not taken/],
  ['2^53 + 1', JSON.parse('{"n":9007199254740993}'), /^n: integers beyond/],
  ['minus 2^53', -(2 ** 53), /integers beyond/],
  ['1e400', JSON.parse('{"n":[1e400]}'), /^n\[0\]: Infinity is not a JSON number/],
  ['NaN', Number.NaN, /NaN is not a JSON number/],
  ['undefined', { a: undefined }, /^a: /],
  ['a hole', new Array(2), /^\[0\]: /],
  ['a function', { toJSON: () => 1 }, /^toJSON: /],
  ['a big integer', 1n, /bigint/],
  ['a Date', new Date(0), /not a plain object/],
  ['a Map', new Map(), /not a plain object/],
  ['a class', new (class A {})(), /not a plain object/],
  [`${MAX_DEPTH + 1} levels`, nested(MAX_DEPTH + 1), /nested deeper than 128 levels/],
  ['20,000 levels', nested(20_000), /nested deeper than 128 levels/],
];

const anyText = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 60 }),
  // Code units at will: lone surrogates, halves in the wrong order.
  fc
    .array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: 0xd800, max: 0xdfff })), { maxLength: 60 })
    .map((units) => String.fromCharCode(...units)),
);
const json = fc.jsonValue({ maxDepth: 4 }) as fc.Arbitrary<Json>;

describe('JSON as the contract takes it', () => {
  it.each(ACCEPTED)('takes %s', (_, value) => {
    expect(jsonProblem(value)).toBeUndefined();
    expect(jsonValue.parse(value)).toBe(value);
  });

  it.each(REFUSED)('refuses %s by name', (_, value, message) => {
    expect(jsonProblem(value)).toMatch(message);
    expect(jsonValue.safeParse(value).error?.issues[0]?.message).toMatch(message);
  });

  it('takes only objects where an object is due', () => {
    for (const value of [null, [], 'x', 1, true, undefined]) expect(jsonObject.safeParse(value).success).toBe(false);
    expect(jsonObject.parse({ a: [] })).toEqual({ a: [] });
  });

  it('refuses a start request that says __proto__ at any level', () => {
    const body = (extra: string) => JSON.parse(`{"conversationId":"c","providerId":"p","input":1${extra}}`);
    expect(startExecutionRequestSchema.safeParse(body('')).success).toBe(true);
    for (const extra of [
      ',"__proto__":{}',
      ',"config":{"__proto__":1}',
      ',"metadata":{"a":[{"__proto__":1}]}',
      ',"input":{"__proto__":null}',
    ])
      expect(startExecutionRequestSchema.safeParse(body(extra)).success, extra).toBe(false);
  });

  it('is read back as it was taken', () => {
    checked(json, (value) => {
      if (jsonProblem(value) === undefined) expect(throughJson(value)).toEqual(normalZero(value));
    });
  });
});

describe('canonical JSON', () => {
  it('sorts keys by code unit, at every level, and has no white space', () => {
    expect(canonicalJson({ b: [{ z: 1, a: null }], a: 'ä', B: 1.0, '\u{1F600}': 0, '\uFB01': 0 })).toBe(
      '{"B":1,"a":"ä","b":[{"a":null,"z":1}],"\u{1F600}":0,"\uFB01":0}',
    );
  });

  it('does not depend on spelling', () => {
    const spellings = ['{"a":1,"b":"a"}', '{ "b" : "\\u0061", "a" : 1.0 }', '{"a":1e0,\n"b":"a"}'];
    expect(new Set(spellings.map((text) => canonicalJson(JSON.parse(text))))).toHaveProperty('size', 1);
  });

  it('is equal for equal values and different for different ones (invariant 4)', () => {
    checked(fc.tuple(json, json), ([a, b]) => {
      expect(canonicalJson(shuffled(a))).toBe(canonicalJson(a));
      expect(canonicalJson(throughJson(a))).toBe(canonicalJson(a));
      expect(JSON.parse(canonicalJson(a))).toEqual(throughJson(a));
      expect(canonicalJson(a) === canonicalJson(b)).toBe(same(a, b));
    });
  });
});

describe('sizes and cuts', () => {
  it('counts the bytes that travel', () => {
    checked(anyText, (text) => {
      if (isWellFormed(text)) expect(utf8Bytes(text)).toBe(Buffer.byteLength(text));
      expect(jsonBytes(text)).toBe(Buffer.byteLength(JSON.stringify(text)));
    });
  });

  it('keeps the longest end that fits, whole characters only', () => {
    checked(fc.tuple(anyText, fc.integer({ min: 2, max: 200 })), ([text, limit]) => {
      const tail = tailWithin(text, limit);
      expect(text.endsWith(tail)).toBe(true);
      expect(jsonBytes(tail)).toBeLessThanOrEqual(limit);
      if (isWellFormed(text)) expect(isWellFormed(tail)).toBe(true);
      // Not one character more would fit.
      const [last] = [...text.slice(0, text.length - tail.length)].slice(-1);
      if (last !== undefined) expect(jsonBytes(last + tail)).toBeGreaterThan(limit);
      if (jsonBytes(text) <= limit) expect(tail).toBe(text);
    });
  });

  it('clips messages without splitting a character', () => {
    checked(fc.tuple(anyText, fc.integer({ min: 1, max: 60 })), ([text, limit]) => {
      const clipped = clip(text, limit);
      expect(clipped.length).toBeLessThanOrEqual(limit);
      if (isWellFormed(text)) expect(isWellFormed(clipped)).toBe(true);
      if (text.length <= limit) expect(clipped).toBe(text);
    });
  });

  it('drops from the beginning what the longest end leaves out, and counts a text piece by piece', () => {
    checked(fc.tuple(fc.array(anyText, { maxLength: 6 }), fc.integer({ min: 2, max: 200 })), ([pieces, limit]) => {
      let text = '';
      let bytes = 2;
      for (const piece of pieces) {
        bytes += bytesAfter(text, piece);
        text += piece;
      }
      expect(bytes).toBe(jsonBytes(text));
      const kept = withoutBeginning(text, bytes - limit);
      expect(kept.text).toBe(tailWithin(text, limit));
      expect(bytes - kept.dropped).toBe(jsonBytes(kept.text));
    });
  });

  it('cuts a megabyte in a moment', () => {
    const text = '\u{1F600}'.repeat(500_000);
    const tail = tailWithin(text, 256 * 1024);
    expect(tail.length).toBe(2 * Math.floor((256 * 1024 - 2) / 4));
  });
});

/** No half of a surrogate pair stands alone. */
function isWellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

/** The same value with the keys of every object in reverse order. */
function shuffled(value: Json): Json {
  if (Array.isArray(value)) return value.map(shuffled);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, shuffled(member)]),
  );
}

function same(a: Json, b: Json): boolean {
  if (Array.isArray(a) || Array.isArray(b))
    return Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, i) => same(item, b[i]!));
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => Object.hasOwn(b, key) && same(a[key]!, b[key]!));
}

/** JSON has one zero. */
function normalZero(value: Json): Json {
  if (Array.isArray(value)) return value.map(normalZero);
  if (typeof value === 'object' && value !== null)
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, normalZero(member)]));
  return Object.is(value, -0) ? 0 : value;
}
