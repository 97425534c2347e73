/** What went wrong with a model's request, in words that a caller can act on, and whether asking again may help. */
import { HoldfastError } from '../../protocol/errors.js';
import { clip } from '../../protocol/json.js';
import type { Redactor } from '../process/redact.js';
import { cleanText } from '../process/stderr-tail.js';

const MAX_WHAT = 2000;

/** One request that failed. Its message is the end of a sentence that begins with the model. */
export class ModelFailure extends Error {
  override readonly name = 'ModelFailure';
  readonly retryable: boolean;
  /** Milliseconds that the model asked to wait. */
  readonly waitMs: number | undefined;

  constructor(message: string, options: { retryable: boolean; waitMs?: number | undefined }) {
    super(message);
    this.retryable = options.retryable;
    this.waitMs = options.waitMs;
  }
}

/**
 * Reads an error of the SDK, or what a stream carried as one. Nothing of the request (its headers, the conversation) is
 * taken from it.
 */
export function asModelFailure(error: unknown): ModelFailure {
  if (error instanceof ModelFailure) return error;
  if (typeof error === 'string') return new ModelFailure(`failed: ${error}`, { retryable: true });
  const { message, statusCode, code, status, responseHeaders, cause } = asFields(error);
  const known = [statusCode, status, code].map(Number).find((value) => value >= 400 && value < 600);
  const said = typeof message === 'string' && message !== '' ? message : 'no message';
  if (known !== undefined)
    return new ModelFailure(`answered ${known}: ${said}`, {
      retryable: RETRYABLE.has(known) || known >= 500,
      waitMs: retryAfterMs(asFields(responseHeaders)),
    });
  const why = asFields(cause).message;
  return new ModelFailure(`failed: ${said}${typeof why === 'string' && !said.includes(why) ? ` (${why})` : ''}`, {
    retryable: true,
  });
}

/** Timeout, conflict, too early, too many. */
const RETRYABLE = new Set([408, 409, 425, 429]);

function asFields(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/** `retry-after-ms`, or `retry-after` in seconds or as a date (RFC 9110, 10.2.3). */
function retryAfterMs(headers: Record<string, unknown>): number | undefined {
  const exact = Number(headers['retry-after-ms'] ?? Number.NaN);
  if (exact >= 0) return exact;
  const given = headers['retry-after'];
  if (typeof given !== 'string' || given.trim() === '') return undefined;
  const ms = /^\s*\d+(\.\d+)?\s*$/.test(given) ? Number(given) * 1000 : Date.parse(given) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.max(0, ms);
}

/** The error that a run rejects with. It has no cause: the SDK's errors hold the whole request. */
export function modelError(model: string, what: string, redactor: Redactor): HoldfastError {
  // Redacted before it is cut: half a secret would not be known as one.
  const message = clip(redactor.text(cleanText(`model "${model}" ${what}`)), MAX_WHAT);
  return new HoldfastError('PROVIDER_ERROR', message, { details: { model } });
}
