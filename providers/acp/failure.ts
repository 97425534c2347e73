/** What went wrong with an agent, in words that a caller can act on. */
import { RequestError } from '@agentclientprotocol/sdk';
import { HoldfastError } from '../../protocol/errors.js';
import { clip, tailWithin } from '../../protocol/json.js';
import { boundJson } from '../process/bound.js';
import type { Redactor } from '../process/redact.js';
import { cleanText } from '../process/stderr-tail.js';

/** Of what happened, and of the standard error after it: together they fit in an execution's error message. */
const MAX_WHAT = 2000;
const MAX_STDERR = 1500;

/** A failure of the agent: becomes a `PROVIDER_ERROR` once its last words are known. */
export class AgentFailure extends Error {
  override readonly name = 'AgentFailure';
}

/** ACP's code for "log in first". */
const AUTH_REQUIRED = -32000;

/** An error that the agent answered a request with. */
export function refusedRequest(method: string, error: RequestError): AgentFailure {
  const data = error.data === undefined ? '' : ` ${JSON.stringify(boundJson(error.data, MAX_WHAT * 8).value)}`;
  const advice =
    error.code === AUTH_REQUIRED ? ' (log the agent in beforehand, or give it credentials in "secretEnv")' : '';
  return new AgentFailure(`answered ${method} with error ${error.code}: ${error.message}${data}${advice}`, {
    cause: error,
  });
}

/**
 * The error that a run rejects with: `agent "x" exited with code 7 …`, with the end of its standard error. An error
 * that is not the agent's (of the runtime, of the request) passes as it is.
 */
export function asHoldfastError(error: unknown, agent: string, stderr: string, redactor: Redactor): unknown {
  if (!(error instanceof AgentFailure)) return error;
  // Redacted before it is cut: half a secret would not be known as one.
  const said = tailWithin(redactor.text(stderr), MAX_STDERR);
  const what = clip(redactor.text(cleanText(`agent "${agent}" ${error.message}`)), MAX_WHAT);
  const message = said === '' ? what : `${what}. The end of its standard error:\n${said}`;
  return new HoldfastError('PROVIDER_ERROR', message, {
    details: { agent, ...(said === '' ? {} : { stderr: said }), ...codeOf(error.cause) },
    cause: error,
  });
}

function codeOf(cause: unknown): { agentCode?: number } {
  return cause instanceof RequestError ? { agentCode: cause.code } : {};
}
