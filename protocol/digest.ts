/** Digests that the reducer computes: in the workflow sandbox there is no `node:crypto`. */
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import { canonicalJson, type Json } from './json.js';

/** The SHA-256 of a value's canonical JSON in UTF-8, as 64 lower-case hexadecimal digits. */
export function digestOf(value: Json): string {
  return bytesToHex(sha256(utf8ToBytes(canonicalJson(value))));
}
