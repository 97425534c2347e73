/** What went wrong with a command, in words that a caller can act on. */
import { HoldfastError } from '../../protocol/errors.js';
import { clip, tailWithin } from '../../protocol/json.js';
import type { Redactor } from '../process/redact.js';
import { cleanText } from '../process/stderr-tail.js';

/** Of what happened, and of the standard error after it: together they fit in an execution's error message. */
const MAX_WHAT = 2000;
const MAX_STDERR = 1500;

/** A failure of the command. Its message is the end of a sentence that begins with it. */
export class CommandFailure extends Error {
  override readonly name = 'CommandFailure';
}

/** The error that a run rejects with: what happened, and the end of standard error. Other errors pass as they are. */
export function asHoldfastError(error: unknown, name: string, stderr: string, redactor: Redactor): unknown {
  if (!(error instanceof CommandFailure)) return error;
  // Redacted before it is cut: half a secret would not be known as one.
  const said = tailWithin(redactor.text(stderr), MAX_STDERR);
  const what = clip(redactor.text(cleanText(`command "${name}" ${error.message}`)), MAX_WHAT);
  const message = said === '' ? what : `${what}. The end of its standard error:\n${said}`;
  return new HoldfastError('PROVIDER_ERROR', message, {
    details: { command: name, ...(said === '' ? {} : { stderr: said }) },
    cause: error,
  });
}
