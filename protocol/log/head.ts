/** The rolling hash of a log. It guards against divergence, not against an adversary: fast, and pure JavaScript. */

export const EMPTY_HEAD = '0000000000000000';

/** `head` advanced by `text`: two independent 32-bit multiplicative hashes, as 16 hexadecimal digits. */
export function advanceHead(head: string, text: string): string {
  let a = Number.parseInt(head.slice(0, 8), 16) ^ 0x9e3779b9;
  let b = Number.parseInt(head.slice(8), 16) ^ 0x85ebca6b;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    a = Math.imul(a ^ unit, 0x01000193);
    b = Math.imul(b ^ unit, 0x5bd1e995) + 0x27d4eb2f;
  }
  a = Math.imul(a ^ (a >>> 16), 0x85ebca6b) ^ (b >>> 13);
  b = Math.imul(b ^ (b >>> 15), 0xc2b2ae35) ^ (a >>> 16);
  return hex(a) + hex(b);
}

function hex(value: number): string {
  return (value >>> 0).toString(16).padStart(8, '0');
}
