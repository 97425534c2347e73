import { condition, proxyActivities, setDefaultSignalHandler } from '@temporalio/workflow';
import type { BareActivities } from './messages.js';

/** Waits for one signal, runs one activity (on a queue of its own when one is given), and closes. */
export async function signalToActivity(id: string, taskQueue?: string): Promise<void> {
  const { noop } = proxyActivities<BareActivities>({
    startToCloseTimeout: '1 minute',
    retry: { maximumAttempts: 1 },
    ...(taskQueue === undefined ? {} : { taskQueue }),
  });
  let signalled = false;
  setDefaultSignalHandler(() => {
    signalled = true;
  });
  await condition(() => signalled);
  await noop(id);
}
