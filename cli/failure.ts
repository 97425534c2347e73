/** How a command fails: one line with the code and what to do, and an exit code. */
import { inspect } from 'node:util';
import { CommanderError } from 'commander';
import { ResolveError } from '../dev/resolve.js';
import { HoldfastError } from '../protocol/errors.js';
import { Interrupted } from './stage.js';
import { plain } from './text.js';

export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** Says on standard error what went wrong and returns the exit code for it. A stack comes only with HOLDFAST_DEBUG. */
export function report(error: unknown): number {
  if (error instanceof Interrupted) return error.exitCode;
  if (error instanceof CommanderError) {
    // Help and version are no failure; commander has printed them.
    if (error.exitCode === 0) return EXIT.ok;
    if (error.code !== 'commander.help')
      complain(`holdfast: ${error.message.replace(/^error: /, '').replace(/\s*\n\s*/g, ' ')}`);
    return EXIT.usage;
  }
  complain(`holdfast: ${describe(error)}`);
  if (process.env.HOLDFAST_DEBUG) complain(inspect(error));
  return EXIT.failed;
}

function describe(error: unknown): string {
  if (error instanceof HoldfastError) return `${error.code}: ${error.message}${advice(error)}`;
  // This one lists what was tried, a line each.
  if (error instanceof ResolveError) return `RUNTIME_UNAVAILABLE: ${error.message}`;
  const message = error instanceof Error ? error.message : String(error);
  const hint = process.env.HOLDFAST_DEBUG ? '' : ' (HOLDFAST_DEBUG=1 shows where)';
  return `INTERNAL_ERROR: ${message}${hint}`;
}

function advice(error: HoldfastError): string {
  return error.message.startsWith('no Temporal server answers')
    ? '; start one, or name it by --address or TEMPORAL_ADDRESS'
    : '';
}

function complain(text: string): void {
  process.stderr.write(`${plain(text)}\n`);
}
