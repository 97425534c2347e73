/**
 * JSON as the contract understands it: what can be written and read back without change. Whatever JavaScript or a
 * parser would alter in silence (`__proto__`, integers above 2^53, Infinity, `undefined`) is refused here, so that two
 * different requests never look equal (DESIGN §1, invariant 4).
 */
import { z } from 'zod';

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

/** The deepest nesting that is taken. A document of 20,000 levels overflows the stack of half the world's parsers. */
export const MAX_DEPTH = 128;

/** What is wrong with `value` as JSON, as "path: reason", or undefined when it can be kept exactly. */
export function jsonProblem(value: unknown, path = '', depth = 0): string | undefined {
  const at = path === '' ? 'value' : path;
  if (depth > MAX_DEPTH) return `${at.slice(0, 80)}: nested deeper than ${MAX_DEPTH} levels`;
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return undefined;
    case 'number':
      if (!Number.isFinite(value)) return `${at}: ${value} is not a JSON number`;
      if (Number.isInteger(value) && !Number.isSafeInteger(value))
        return `${at}: integers beyond ±(2^53 − 1) cannot be kept exactly; send it as a string`;
      return undefined;
    case 'object': {
      if (value === null) return undefined;
      if (Array.isArray(value)) {
        for (let i = 0; i < value.length; i++) {
          const problem = jsonProblem(value[i], `${path}[${i}]`, depth + 1);
          if (problem !== undefined) return problem;
        }
        return undefined;
      }
      const prototype: unknown = Object.getPrototypeOf(value);
      // An object of another realm (a sandbox) has another Object.prototype: what counts is that its chain is short.
      if (prototype !== null && Object.getPrototypeOf(prototype) !== null) return `${at}: not a plain object`;
      for (const key of Object.keys(value)) {
        if (key === '__proto__') return `${at}: the key "__proto__" is not taken`;
        const problem = jsonProblem((value as JsonObject)[key], path === '' ? key : `${path}.${key}`, depth + 1);
        if (problem !== undefined) return problem;
      }
      return undefined;
    }
    default:
      return `${at}: ${typeof value} is not JSON`;
  }
}

/** Any JSON value, passed through untouched. */
export const jsonValue: z.ZodType<Json, Json> = z.unknown().superRefine((value, ctx) => {
  const problem = jsonProblem(value);
  if (problem !== undefined) ctx.addIssue({ code: 'custom', message: problem });
}) as unknown as z.ZodType<Json, Json>;

/** A JSON object, passed through untouched (zod's own `record` drops a key `__proto__` without a word). */
export const jsonObject: z.ZodType<JsonObject, JsonObject> = z
  .unknown()
  .superRefine((value, ctx) => {
    const problem =
      typeof value !== 'object' || value === null || Array.isArray(value)
        ? 'must be a JSON object'
        : jsonProblem(value);
    if (problem !== undefined) ctx.addIssue({ code: 'custom', message: problem });
  })
  .meta({ type: 'object' }) as unknown as z.ZodType<JsonObject, JsonObject>;

/** Size of a value as it travels: bytes of its JSON in UTF-8. */
export function jsonBytes(value: unknown): number {
  return utf8Bytes(JSON.stringify(value) ?? '');
}

/** Bytes of a string in UTF-8. No TextEncoder: this also runs in the workflow sandbox, and allocates nothing. */
export function utf8Bytes(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    else if (isHighSurrogate(unit) && isLowSurrogate(text.charCodeAt(i + 1))) {
      bytes += 2;
      i++;
    } else bytes += 2;
  }
  return bytes;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

/**
 * Canonical JSON: object keys sorted by code unit, no white space. Equal values have equal text whatever the order of
 * their keys, which is what request fingerprints compare.
 */
export function canonicalJson(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value === 'object' && value !== null) {
    const members = Object.keys(value)
      .sort()
      .map((key) => `${JSON.stringify(key)}:${canonicalJson(value[key] ?? null)}`);
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(value);
}

/** Through JSON and back: what a reader of the stored form will see. */
export function throughJson<T>(value: T): T {
  return JSON.parse(JSON.stringify(value)) as T;
}

/** The longest end of `text` whose JSON encoding takes at most `limit` bytes; never starts inside a surrogate pair. */
export function tailWithin(text: string, limit: number): string {
  let start = text.length;
  let bytes = 2;
  while (start > 0) {
    const unit = text.charCodeAt(start - 1);
    const isPair = isLowSurrogate(unit) && isHighSurrogate(text.charCodeAt(start - 2));
    bytes += isPair ? 4 : encodedBytes(unit);
    if (bytes > limit) break;
    start -= isPair ? 2 : 1;
  }
  return text.slice(start);
}

/**
 * `text` without the fewest characters of its beginning that have at least `bytes` in encoded JSON, and how many they had.
 * What is looked at is what goes, however long the rest is.
 */
export function withoutBeginning(text: string, bytes: number): { readonly text: string; readonly dropped: number } {
  let start = 0;
  let dropped = 0;
  while (dropped < bytes && start < text.length) {
    const unit = text.charCodeAt(start);
    const isPair = isHighSurrogate(unit) && isLowSurrogate(text.charCodeAt(start + 1));
    dropped += isPair ? 4 : encodedBytes(unit);
    start += isPair ? 2 : 1;
  }
  return { text: text.slice(start), dropped };
}

/** Bytes of `text` in encoded JSON after `before`: a pair of surrogates that they make together takes less than its halves. */
export function bytesAfter(before: string, text: string): number {
  const joins = isLowSurrogate(text.charCodeAt(0)) && isHighSurrogate(before.charCodeAt(before.length - 1));
  return jsonBytes(text) - 2 - (joins ? 8 : 0);
}

/** Bytes of one UTF-16 unit inside a JSON string. Half a pair is escaped. */
function encodedBytes(unit: number): number {
  if (unit < 0x20) return unit === 8 || unit === 9 || unit === 10 || unit === 12 || unit === 13 ? 2 : 6;
  if (unit === 0x22 || unit === 0x5c) return 2;
  if (unit < 0x80) return 1;
  if (unit < 0x800) return 2;
  return isLowSurrogate(unit) || isHighSurrogate(unit) ? 6 : 3;
}

/** The beginning of `text` in at most `limit` UTF-16 units; never ends inside a surrogate pair. For messages. */
export function clip(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const end = limit - 1;
  return `${text.slice(0, isLowSurrogate(text.charCodeAt(end)) ? Math.max(0, end - 1) : end)}…`;
}
