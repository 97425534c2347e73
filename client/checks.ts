/** What callers send, checked at the edge: one clear `VALIDATION_ERROR` that names the field. */
import type { z } from 'zod';
import { HoldfastError } from '../protocol/errors.js';
import { idSchema } from '../protocol/ids.js';

export function check<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const issues = parsed.error.issues.map((issue) => ({ path: issue.path.join('.'), message: issue.message }));
  const [first] = issues;
  const where = first === undefined || first.path === '' ? what : `${what}.${first.path}`;
  throw new HoldfastError('VALIDATION_ERROR', `${where}: ${first?.message ?? 'invalid'}`, { details: { issues } });
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
