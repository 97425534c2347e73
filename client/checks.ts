/** What callers send, checked at the edge: one clear `VALIDATION_ERROR` that names the field. */
import type { z } from 'zod';
import { HoldfastError } from '../protocol/errors.js';
import { idSchema } from '../protocol/ids.js';

export function check<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const read = safely(() => {
    const { data, error } = schema.safeParse(value);
    const issues = error?.issues.map((issue) => ({ path: issue.path.join('.'), message: issue.message }));
    return issues === undefined ? { data: data as T } : { issues };
  }, what);
  if (read.issues === undefined) return read.data;
  const { issues } = read;
  const [first] = issues;
  const where = first === undefined || first.path === '' ? what : `${what}.${first.path}`;
  throw new HoldfastError('VALIDATION_ERROR', `${where}: ${first?.message ?? 'invalid'}`, { details: { issues } });
}

/** Reading what a caller sends may run the caller's own code: a getter or a proxy can throw anything. */
function safely<T>(read: () => T, what: string): T {
  try {
    return read();
  } catch (error) {
    throw new HoldfastError('VALIDATION_ERROR', `${what}: cannot be read`, { cause: error });
  }
}

/** The options that were given; each is looked at where it is used. */
export function checkOptions<T extends object>(value: T, what = 'options'): T {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new HoldfastError('VALIDATION_ERROR', `${what}: must be an object`);
  return safely(() => ({ ...value }), what);
}

/** The id of an execution. One that is none of ours cannot be there, and must not reach what it names (a conversation). */
export function checkExecutionId(value: unknown): string {
  const id = checkId(value, 'executionId');
  if (!id.startsWith('exec_')) throw new HoldfastError('NOT_FOUND', `there is no execution ${id}`);
  return id;
}

export function checkSignal(value: unknown): AbortSignal | undefined {
  const signal = safely(() => (value instanceof AbortSignal ? value : undefined), 'signal');
  if (value === undefined || signal !== undefined) return signal;
  throw new HoldfastError('VALIDATION_ERROR', 'signal: must be an AbortSignal');
}

/** Node fires a longer timer at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** Milliseconds to wait, 0 for a single look. */
export function checkTimeout(value: unknown): number | undefined {
  if (value === undefined) return undefined;
  if (typeof value !== 'number' || !(value >= 0 && value <= MAX_TIMEOUT_MS))
    throw new HoldfastError(
      'VALIDATION_ERROR',
      `timeoutMs: must be a number of milliseconds from 0 to ${MAX_TIMEOUT_MS}; leave it out to wait for ever`,
    );
  return value;
}

export function checkId(value: unknown, what: string): string {
  return check(idSchema, value, what);
}

/** A cursor: the last sequence that was read, 0 for none. */
export function checkCursor(value: unknown, what = 'after'): number {
  if (value === undefined) return 0;
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 0)
    throw new HoldfastError(
      'VALIDATION_ERROR',
      `${what}: must be a whole number, 0 or more: the last sequence you have`,
    );
  return value;
}

export function checkLimit(value: unknown, most: number): number {
  if (value === undefined) return Math.min(1000, most);
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < 1 || value > most)
    throw new HoldfastError('VALIDATION_ERROR', `limit: must be a whole number from 1 to ${most}`);
  return value;
}
