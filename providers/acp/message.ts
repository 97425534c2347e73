/**
 * Tells the protocol's messages from everything else that programs print on standard output: log lines, progress bars,
 * numbers, log objects. Only a whole, valid JSON-RPC 2.0 message passes. An object that merely has the `id` of a
 * pending request (`{"id": 2, "level": "info"}`) is not an answer: it lacks `jsonrpc: "2.0"`.
 */
import type { AnyMessage } from '@agentclientprotocol/sdk';
import { cleanText } from '../process/stderr-tail.js';

export type Line =
  | { readonly kind: 'message'; readonly message: AnyMessage }
  | { readonly kind: 'empty' }
  | { readonly kind: 'noise'; readonly sample: string };

/** How much of a line may be shown in a log. */
const SAMPLE = 1000;

/** Reads one line, decoded as UTF-8. Never throws. */
export function readLine(bytes: Buffer): Line {
  const line = bytes.toString('utf8').trim();
  if (line === '') return { kind: 'empty' };
  const value = withoutNullError(parse(line));
  if (isMessage(value)) return { kind: 'message', message: value };
  return { kind: 'noise', sample: line.slice(0, SAMPLE) };
}

/** A terminal sequence without a line end of its own may stand before an honest message. */
function parse(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    const start = line.indexOf('{');
    // Only what shows nothing at all is skipped: after words, an object is quoted by a log and not meant for us.
    if (start <= 0 || start > SAMPLE || cleanText(line.slice(0, start)) !== '') return undefined;
  }
  try {
    return JSON.parse(line.slice(line.indexOf('{')));
  } catch {
    return undefined;
  }
}

/** JSON-RPC 1.0 habits: a result beside `error: null` is a result. */
function withoutNullError(value: unknown): unknown {
  if (!isObject(value) || value.error !== null || !Object.hasOwn(value, 'result')) return value;
  const { error: _, ...rest } = value;
  return rest;
}

function isMessage(value: unknown): value is AnyMessage {
  if (!isObject(value) || value.jsonrpc !== '2.0') return false;
  if (Object.hasOwn(value, 'method'))
    return typeof value.method === 'string' && (!Object.hasOwn(value, 'id') || isId(value.id));
  if (!Object.hasOwn(value, 'id') || !isId(value.id)) return false;
  const failed = Object.hasOwn(value, 'error');
  if (failed === Object.hasOwn(value, 'result')) return false;
  return !failed || isError(value.error);
}

function isId(id: unknown): boolean {
  return id === null || typeof id === 'string' || typeof id === 'number';
}

function isError(error: unknown): boolean {
  return isObject(error) && Number.isInteger(error.code) && typeof error.message === 'string';
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
