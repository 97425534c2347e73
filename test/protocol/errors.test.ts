import { describe, expect, it, vi } from 'vitest';
import {
  ERROR_STATUS,
  type ErrorCode,
  EXECUTION_ONLY_CODES,
  HoldfastError,
  isErrorCode,
  isExecutionErrorCode,
} from '../../protocol/errors.js';

/** DESIGN §1, written out by hand. */
const STATUS: Record<string, number> = {
  VALIDATION_ERROR: 400,
  NOT_FOUND: 404,
  PROVIDER_NOT_FOUND: 404,
  CAPABILITY_UNSUPPORTED: 422,
  IDEMPOTENCY_CONFLICT: 409,
  INVALID_STATE: 409,
  ACTION_NOT_FOUND: 404,
  ACTION_ALREADY_RESOLVED: 409,
  EVENTS_EXPIRED: 410,
  QUOTA_EXCEEDED: 429,
  PROVIDER_ERROR: 502,
  RUNTIME_UNAVAILABLE: 503,
  INTERNAL_ERROR: 500,
};

/** The module evaluated once more, as a second installed version would be. */
async function secondCopy(): Promise<typeof import('../../protocol/errors.js')> {
  vi.resetModules();
  return import('../../protocol/errors.js');
}

describe('errors', () => {
  it('have the codes of the contract, each with its HTTP status', () => {
    expect(ERROR_STATUS).toEqual(STATUS);
    for (const code of Object.keys(STATUS) as ErrorCode[])
      expect(new HoldfastError(code, 'why').status).toBe(STATUS[code]);
  });

  it('know which codes a call, and which only an execution can have', () => {
    expect(EXECUTION_ONLY_CODES).toEqual(['EXECUTION_TIMEOUT', 'PROVIDER_LOST', 'TERMINATED', 'RESET']);
    for (const code of EXECUTION_ONLY_CODES) {
      expect(isErrorCode(code)).toBe(false);
      expect(isExecutionErrorCode(code)).toBe(true);
    }
    for (const junk of ['toString', '__proto__', '', 'validation_error', 400, null, undefined, {}]) {
      expect(isErrorCode(junk)).toBe(false);
      expect(isExecutionErrorCode(junk)).toBe(false);
    }
  });

  it('carry name, code, message, details and cause, and say the first four as JSON', () => {
    const cause = new Error('below');
    const error = new HoldfastError('EVENTS_EXPIRED', 'read on from 7', { details: { oldest: 7 }, cause });
    expect(error).toBeInstanceOf(Error);
    expect(error).toMatchObject({ name: 'HoldfastError', code: 'EVENTS_EXPIRED', details: { oldest: 7 }, cause });
    expect(JSON.parse(JSON.stringify(error))).toEqual({
      code: 'EVENTS_EXPIRED',
      message: 'read on from 7',
      details: { oldest: 7 },
    });
    expect(new HoldfastError('NOT_FOUND', 'gone').toJSON()).toEqual({ code: 'NOT_FOUND', message: 'gone' });
  });

  it('are recognised by the class of another copy of the module', async () => {
    const other = await secondCopy();
    expect(other.HoldfastError).not.toBe(HoldfastError);
    expect(new other.HoldfastError('NOT_FOUND', 'there')).toBeInstanceOf(HoldfastError);
    expect(new HoldfastError('NOT_FOUND', 'here')).toBeInstanceOf(other.HoldfastError);
  });

  it.each([
    ['a plain Error', new Error('no')],
    ['an object that looks like one', { name: 'HoldfastError', code: 'NOT_FOUND', message: 'no' }],
    ['null', null],
    ['a text', 'NOT_FOUND'],
    ['a function', () => undefined],
  ])('does not take %s for one', (_, value) => {
    expect(value instanceof HoldfastError).toBe(false);
  });
});
