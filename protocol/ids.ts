/**
 * Ids. They stand in URLs before `:cancel`, in event ids and in visibility queries, so what a caller sends as one is
 * checked against one alphabet at the edge and nothing else is ever put into a query.
 */
import { z } from 'zod';

export const ID_PATTERN = /^[A-Za-z0-9_-]{1,128}$/;

/** An id as a caller may send it. */
export const idSchema = z.string().regex(ID_PATTERN, 'must be 1–128 characters of A–Z, a–z, 0–9, "_" and "-"');

export const DEFAULT_TENANT = 'default';

export type IdKind = 'conv' | 'exec' | 'act' | 'art' | 'resp';

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';

/** RFC 4648 base32 in lower case, without padding: fits the alphabet of ids. */
export function base32(bytes: Uint8Array): string {
  let text = '';
  let buffer = 0;
  let bits = 0;
  for (const byte of bytes) {
    buffer = ((buffer << 8) | byte) & 0xffff;
    bits += 8;
    while (bits >= 5) {
      bits -= 5;
      text += ALPHABET[(buffer >>> bits) & 31];
    }
  }
  return bits > 0 ? text + ALPHABET[(buffer << (5 - bits)) & 31] : text;
}

/** `<kind>_<26 characters>` from at least 17 bytes: random ones, or a hash. */
export function idFrom(kind: IdKind, bytes: Uint8Array): string {
  return `${kind}_${base32(bytes).slice(0, 26)}`;
}

/**
 * The workflow id of an execution or conversation. The tenant is part of it, so that an id of another tenant does not
 * resolve at all. `.` is in neither alphabet.
 */
export function workflowIdOf(tenant: string, id: string): string {
  return `${tenant}.${id}`;
}

/** An event's id: "<executionId>:<sequence>". */
export function eventId(executionId: string, sequence: number): string {
  return `${executionId}:${sequence}`;
}
