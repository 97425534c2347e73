/**
 * Keeping the exact secret values that a worker passed to a child out of all that is emitted. This catches the tool
 * that prints its environment, not an agent that is determined to encode what it knows.
 */
import type { Json } from '../../protocol/json.js';

const REPLACEMENT = '[redacted]';

export class Redactor {
  /** Longest first, so that a secret which holds another one goes as a whole. */
  readonly #secrets: readonly string[];

  constructor(values: Iterable<string>) {
    const secrets = new Set<string>();
    for (const value of values) {
      if (value === '') continue;
      secrets.add(value);
      // JSON inside a string (a tool's raw output) holds a secret's quotes and line ends escaped.
      secrets.add(JSON.stringify(value).slice(1, -1));
    }
    this.#secrets = [...secrets].sort((a, b) => b.length - a.length);
  }

  get secrets(): readonly string[] {
    return this.#secrets;
  }

  text(text: string): string {
    let clean = text;
    for (const secret of this.#secrets) clean = clean.replaceAll(secret, REPLACEMENT);
    return clean;
  }

  /** A copy of `value` with every string in it, keys too, redacted; `value` itself when there are no secrets. */
  data(value: Json): Json {
    return this.#secrets.length === 0 ? value : this.#deep(value);
  }

  #deep(value: Json): Json {
    if (typeof value === 'string') return this.text(value);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((entry) => this.#deep(entry));
    return Object.fromEntries(Object.entries(value).map(([key, entry]) => [this.text(key), this.#deep(entry)]));
  }
}

/**
 * Redacts text that arrives in pieces. The end of a piece that may be the beginning of a secret, or that is half of a
 * surrogate pair, is held back until the next piece decides.
 */
export class TextGate {
  readonly #redactor: Redactor;
  #held = '';

  constructor(redactor: Redactor) {
    this.#redactor = redactor;
  }

  /** Something is held back. */
  get isHolding(): boolean {
    return this.#held !== '';
  }

  /** What can be shown now; may be empty. */
  push(piece: string): string {
    const text = this.#redactor.text(this.#held + piece);
    const keep = this.#undecided(text);
    this.#held = text.slice(text.length - keep);
    return text.slice(0, text.length - keep);
  }

  /** What was held back. Half of a surrogate pair whose other half never came becomes U+FFFD. */
  flush(): string {
    const text = this.#held;
    this.#held = '';
    return endsInHighSurrogate(text) ? `${text.slice(0, -1)}\ufffd` : text;
  }

  /** The length of the longest end of `text` that has to wait. */
  #undecided(text: string): number {
    let longest = endsInHighSurrogate(text) ? 1 : 0;
    for (const secret of this.#redactor.secrets) {
      for (let length = Math.min(secret.length - 1, text.length); length > longest; length--) {
        if (text.endsWith(secret.slice(0, length))) {
          longest = length;
          break;
        }
      }
    }
    return longest;
  }
}

function endsInHighSurrogate(text: string): boolean {
  const last = text.charCodeAt(text.length - 1);
  return last >= 0xd800 && last <= 0xdbff;
}
