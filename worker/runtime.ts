/** The SDK's process-wide runtime, as Holdfast wants it. */
import { DefaultLogger, makeTelemetryFilterString, Runtime } from '@temporalio/worker';

/**
 * Warnings of the SDK that are no news here: our queues mostly serve activities alone, executions may fail, and what
 * was terminated or cancelled under way has nobody to report to.
 */
const EXPECTED = [
  'No workflows registered, not polling for workflow tasks',
  'Workflow failed',
  'Task not found when completing',
  'Activity not found on completion',
];

/**
 * Installs the runtime, unless the process has one already, whose options then stand. The SDK's own signal handling
 * would stop all workers at once; draining has an order, so it is off.
 */
export function installRuntime(): void {
  try {
    Runtime.install({
      shutdownSignals: [],
      telemetryOptions: {
        logging: { forward: {}, filter: makeTelemetryFilterString({ core: 'WARN', other: 'ERROR' }) },
      },
      logger: new DefaultLogger('WARN', ({ level, message, meta }) => {
        if (EXPECTED.some((known) => message.startsWith(known))) return;
        process.stderr.write(`${JSON.stringify({ level: level.toLowerCase(), message, ...meta })}\n`);
      }),
    });
  } catch {
    // There is one already, with options of its own: it stands.
  }
}
