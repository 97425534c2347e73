/** How a command fails: one line with the code and what to do, and an exit code. */
import { inspect } from 'node:util';
import { CommanderError } from 'commander';
import { ResolveError } from '../dev/resolve.js';
import { HoldfastError } from '../protocol/errors.js';
import { EXIT } from './exit.js';
import { Interrupted } from './stage.js';
import { plain } from './text.js';

/**
 * Says on standard error what went wrong and returns the exit code for it; with `--json` as a line of JSON. A stack comes
 * only with HOLDFAST_DEBUG.
 */
export function report(error: unknown, json = false): number {
  if (error instanceof Interrupted) return error.exitCode;
  if (error instanceof CommanderError) {
    // Help and version are no failure; commander has printed them.
    if (error.exitCode === 0) return EXIT.ok;
    if (error.code !== 'commander.help')
      complain(`holdfast: ${error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')}`);
    return EXIT.usage;
  }
  const known = error instanceof HoldfastError ? error : undefined;
  if (json && known !== undefined) {
    const { code, message, details } = known;
    complain(JSON.stringify({ code, message: message + advice(known), details }));
  } else complain(`holdfast: ${describe(error, known)}`);
  if (process.env.HOLDFAST_DEBUG) complain(inspect(error));
  return known?.code === 'VALIDATION_ERROR' ? EXIT.usage : EXIT.failed;
}

function describe(error: unknown, known: HoldfastError | undefined): string {
  if (known !== undefined) return `${known.code}: ${known.message}${advice(known)}`;
  // This one lists what was tried, a line each.
  if (error instanceof ResolveError) return `RUNTIME_UNAVAILABLE: ${error.message}`;
  const message = error instanceof Error ? error.message : String(error);
  const hint = process.env.HOLDFAST_DEBUG ? '' : ' (HOLDFAST_DEBUG=1 shows where)';
  return `INTERNAL_ERROR: ${message}${hint}`;
}

/** What to do next, where the message itself does not say so. */
function advice(error: HoldfastError): string {
  const { code, message } = error;
  if (message.startsWith('no Temporal server answers'))
    return '; start one (holdfast dev), or name it by --address or TEMPORAL_ADDRESS';
  if (code === 'NOT_FOUND' && message.includes('execution')) return '; see those that there are: holdfast ls';
  if (code === 'NOT_FOUND' && message.includes('conversation'))
    return '; see those that there are: holdfast conversations';
  if (code === 'PROVIDER_NOT_FOUND') return '; see: holdfast providers';
  if (code === 'ACTION_NOT_FOUND' || code === 'ACTION_ALREADY_RESOLVED') return '; see what is open: holdfast inbox';
  return '';
}

function complain(text: string): void {
  process.stderr.write(`${plain(text)}\n`);
}
