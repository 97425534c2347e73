import { condition, proxyActivities, setDefaultSignalHandler } from '@temporalio/workflow';
import type { BareActivities } from './messages.js';

const { noop } = proxyActivities<BareActivities>({ startToCloseTimeout: '1 minute', retry: { maximumAttempts: 1 } });

/** Waits for one signal, runs one activity, and closes. */
export async function signalToActivity(id: string): Promise<void> {
  let signalled = false;
  setDefaultSignalHandler(() => {
    signalled = true;
  });
  await condition(() => signalled);
  await noop(id);
}
