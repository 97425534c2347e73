/** The SDK's process-wide runtime, as Holdfast wants it. */
import { DefaultLogger, Runtime } from '@temporalio/worker';

/** What the SDK says of every worker that serves activities alone; ours mostly do, by design. */
const EXPECTED = 'No workflows registered, not polling for workflow tasks';

/**
 * Installs the runtime, unless the process has one already, whose options then stand. The SDK's own signal handling
 * would stop all workers at once; draining has an order, so it is off.
 */
export function installRuntime(): void {
  try {
    Runtime.install({
      shutdownSignals: [],
      logger: new DefaultLogger('WARN', ({ level, message, meta }) => {
        if (message === EXPECTED) return;
        process.stderr.write(`${JSON.stringify({ level: level.toLowerCase(), message, ...meta })}\n`);
      }),
    });
  } catch {
    // There is one already, with options of its own: it stands.
  }
}
