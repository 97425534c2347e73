import { proxyActivities } from '@temporalio/workflow';
import type { BareActivities } from './messages.js';

const { noop } = proxyActivities<BareActivities>({ startToCloseTimeout: '1 minute', retry: { maximumAttempts: 1 } });

/** One activity that does nothing. */
export async function bare(id: string): Promise<void> {
  await noop(id);
}
