/**
 * Makes any value that JSON.parse can return fit for the log. An agent may send megabytes in one update, 20,000 levels
 * of nesting, or integers that JavaScript cannot hold: none of that is a reason for its run to fail.
 */
import { clip, type Json, type JsonObject, jsonBytes } from '../../protocol/json.js';

/** Well under the contract's 128 levels, since the value is put inside others. */
const MAX_LEVELS = 64;

/** The limits that are tried in turn: UTF-16 units of a string, members of an array or object. */
const CUTS = [
  { string: 16_384, members: Number.POSITIVE_INFINITY },
  { string: 4096, members: 1000 },
  { string: 1024, members: 200 },
  { string: 256, members: 50 },
  { string: 64, members: 10 },
  { string: 64, members: 3 },
] as const;

export interface Bounded {
  readonly value: Json;
  /** Something was left out. */
  readonly truncated: boolean;
}

/** `value` as JSON of at most `limit` bytes: long strings keep their beginning, long lists their first members. */
export function boundJson(value: unknown, limit: number): Bounded {
  const whole = new Cutter(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY);
  const json = whole.copy(value);
  if (jsonBytes(json) <= limit) return { value: json, truncated: whole.cut };
  for (const { string, members } of CUTS) {
    const smaller = new Cutter(string, members).copy(json);
    if (jsonBytes(smaller) <= limit) return { value: smaller, truncated: true };
  }
  return { value: null, truncated: true };
}

class Cutter {
  readonly #string: number;
  readonly #members: number;
  cut = false;

  constructor(string: number, members: number) {
    this.#string = string;
    this.#members = members;
  }

  copy(value: unknown, level = 0): Json {
    switch (typeof value) {
      case 'string':
        if (value.length > this.#string) this.cut = true;
        return clip(value, this.#string);
      case 'number':
        // What JavaScript had to round already is shown as the text it would be written as.
        return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value))
          ? value
          : String(value);
      case 'boolean':
        return value;
      case 'object':
        return value === null ? null : this.#nested(value, level);
      default:
        return null;
    }
  }

  #nested(value: object, level: number): Json {
    if (level >= MAX_LEVELS) {
      this.cut = true;
      return '…';
    }
    if (Array.isArray(value)) {
      if (value.length > this.#members) this.cut = true;
      return value.slice(0, this.#members).map((entry) => this.copy(entry, level + 1));
    }
    const copied: JsonObject = {};
    let members = 0;
    for (const [key, entry] of Object.entries(value)) {
      if (key === '__proto__' || members === this.#members || key.length > this.#string) {
        this.cut = true;
        continue;
      }
      members += 1;
      copied[key] = this.copy(entry, level + 1);
    }
    return copied;
  }
}
