/**
 * SHA-256 (FIPS 180-4) in plain JavaScript: the reducer has to compute it in the workflow sandbox, where there is no
 * `node:crypto`. What it hashes is small (one action's payload, 64 KiB at most).
 */
import { canonicalJson, type Json } from './json.js';

/** The SHA-256 of a value's canonical JSON in UTF-8, as 64 lower-case hexadecimal digits. */
export function digestOf(value: Json): string {
  return sha256(utf8(canonicalJson(value)));
}

/** The first 32 bits of the fractional parts of the first primes' roots, as the standard defines its constants. */
function fractions(count: number, root: (prime: number) => number): number[] {
  const primes: number[] = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime !== 0)) primes.push(n);
  return primes.map((prime) => ((root(prime) % 1) * 2 ** 32) | 0);
}

const INITIAL: readonly number[] = Object.freeze(fractions(8, Math.sqrt));
const ROUNDS: readonly number[] = Object.freeze(fractions(64, Math.cbrt));

function sha256(message: readonly number[]): string {
  const words = padded(message);
  const hash = [...INITIAL];
  const w = new Int32Array(64);
  for (let block = 0; block < words.length; block += 16) {
    for (let t = 0; t < 64; t++) {
      if (t < 16) {
        w[t] = words[block + t] ?? 0;
        continue;
      }
      const [a, b] = [w[t - 15] ?? 0, w[t - 2] ?? 0];
      const small0 = rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3);
      const small1 = rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10);
      w[t] = (w[t - 16] ?? 0) + small0 + (w[t - 7] ?? 0) + small1;
    }
    let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = hash;
    for (let t = 0; t < 64; t++) {
      const big1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
      const one = (h + big1 + ((e & f) ^ (~e & g)) + (ROUNDS[t] ?? 0) + (w[t] ?? 0)) | 0;
      const big0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
      const two = (big0 + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => {
      hash[i] = ((hash[i] ?? 0) + value) | 0;
    });
  }
  return hash.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

function rotate(word: number, by: number): number {
  return (word >>> by) | (word << (32 - by));
}

/** The message as big-endian words, with its end mark and its length in bits. */
function padded(message: readonly number[]): Int32Array {
  const words = new Int32Array((((message.length + 8) >>> 6) + 1) * 16);
  const put = (byte: number, at: number): void => {
    words[at >>> 2] = (words[at >>> 2] ?? 0) | (byte << (24 - (at & 3) * 8));
  };
  message.forEach(put);
  put(0x80, message.length);
  words[words.length - 2] = Math.floor(message.length / 2 ** 29);
  words[words.length - 1] = message.length << 3;
  return words;
}

/** UTF-8; half of a surrogate pair becomes U+FFFD, as everywhere else. */
function utf8(text: string): number[] {
  const bytes: number[] = [];
  for (const character of text) {
    const point = character.codePointAt(0) ?? 0;
    const code = point >= 0xd800 && point <= 0xdfff ? 0xfffd : point;
    if (code < 0x80) bytes.push(code);
    else if (code < 0x800) bytes.push(0xc0 | (code >> 6), 0x80 | (code & 63));
    else if (code < 0x10000) bytes.push(0xe0 | (code >> 12), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
    else bytes.push(0xf0 | (code >> 18), 0x80 | ((code >> 12) & 63), 0x80 | ((code >> 6) & 63), 0x80 | (code & 63));
  }
  return bytes;
}
