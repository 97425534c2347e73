/** Every failure as one small JSON object: `{code, message, details?}` with the status of its code. */
import { ERROR_STATUS, type ErrorCode, type ErrorDetails, HoldfastError } from '../protocol/errors.js';

/** The codes that only HTTP knows. */
export const GATEWAY_STATUS = {
  UNAUTHENTICATED: 401,
  FORBIDDEN: 403,
  METHOD_NOT_ALLOWED: 405,
  PAYLOAD_TOO_LARGE: 413,
  UNSUPPORTED_MEDIA_TYPE: 415,
} as const;

export type ProblemCode = ErrorCode | keyof typeof GATEWAY_STATUS;

export const PROBLEM_STATUS: Readonly<Record<ProblemCode, number>> = { ...ERROR_STATUS, ...GATEWAY_STATUS };

export interface Problem {
  readonly code: ProblemCode;
  readonly message: string;
  readonly details?: ErrorDetails;
}

/** A request that the gateway itself refuses. */
export class Refusal extends Error {
  override readonly name = 'Refusal';

  constructor(
    readonly code: ProblemCode,
    message: string,
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
  }
}

/** What to answer for `error`. What we do not know is an INTERNAL_ERROR that tells nothing of itself. */
export function problemOf(error: unknown): { readonly problem: Problem; readonly headers: Record<string, string> } {
  if (error instanceof Refusal)
    return { problem: { code: error.code, message: error.message }, headers: { ...error.headers } };
  if (error instanceof HoldfastError) return { problem: error.toJSON(), headers: headersOf(error.code) };
  const message = 'something went wrong here; the request id names it in the log';
  return { problem: { code: 'INTERNAL_ERROR', message }, headers: {} };
}

function headersOf(code: ErrorCode): Record<string, string> {
  return code === 'RUNTIME_UNAVAILABLE' || code === 'QUOTA_EXCEEDED' ? { 'Retry-After': '1' } : {};
}

/** The response of a problem. */
export function problemResponse(problem: Problem, headers: Readonly<Record<string, string>> = {}): Response {
  return Response.json(problem, { status: PROBLEM_STATUS[problem.code], headers });
}
