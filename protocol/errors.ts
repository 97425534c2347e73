/**
 * Every failure a caller can meet is one class with a stable code. The code is what programs branch on; the message
 * says what to do; `details` carries what a program needs to act (for example the oldest readable sequence).
 */

/** The codes of the portable contract, with the status that HTTP gives them. */
export const ERROR_STATUS = {
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
} as const;

export type ErrorCode = keyof typeof ERROR_STATUS;

/** What an execution that failed may carry besides the codes above (`error.code`, and `code` in `run.failed`). */
export const EXECUTION_ONLY_CODES = ['EXECUTION_TIMEOUT', 'PROVIDER_LOST', 'TERMINATED', 'RESET'] as const;
export type ExecutionErrorCode = ErrorCode | (typeof EXECUTION_ONLY_CODES)[number];

export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(ERROR_STATUS, code);
}

export function isExecutionErrorCode(code: unknown): code is ExecutionErrorCode {
  return isErrorCode(code) || EXECUTION_ONLY_CODES.some((known) => known === code);
}

/** Marks our errors across copies of this module, so that `instanceof` holds when two versions are installed. */
const BRAND = Symbol.for('holdfast.error');

export interface ErrorDetails {
  readonly [key: string]: unknown;
}

/**
 * The one error class of Holdfast.
 *
 * @example
 * try {
 *   await client.respond(executionId, actionId, { approved: true });
 * } catch (error) {
 *   if (error instanceof HoldfastError && error.code === 'ACTION_ALREADY_RESOLVED') return;
 *   throw error;
 * }
 */
export class HoldfastError extends Error {
  override readonly name = 'HoldfastError';
  readonly code: ErrorCode;
  readonly details?: ErrorDetails;

  constructor(code: ErrorCode, message: string, options: { details?: ErrorDetails; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    if (options.details !== undefined) this.details = options.details;
    Object.defineProperty(this, BRAND, { value: true });
  }

  /** The HTTP status of this error's code. */
  get status(): number {
    return ERROR_STATUS[this.code];
  }

  toJSON(): { code: ErrorCode; message: string; details?: ErrorDetails } {
    return { code: this.code, message: this.message, ...(this.details === undefined ? {} : { details: this.details }) };
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    return typeof value === 'object' && value !== null && (value as Record<symbol, unknown>)[BRAND] === true;
  }
}
