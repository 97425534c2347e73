import { defineSearchAttributeKey } from '@temporalio/common';
import { condition, proxyActivities, setDefaultSignalHandler, upsertSearchAttributes } from '@temporalio/workflow';
import type { BareActivities, SameEventsPlan } from './messages.js';

const { signals } = proxyActivities<BareActivities>({
  startToCloseTimeout: '1 hour',
  heartbeatTimeout: '30 seconds',
  retry: { maximumAttempts: 1 },
});
const STATE = defineSearchAttributeKey('HoldfastState', 'KEYWORD');

/** The history of a real execution: an activity that signals its workflow, and upserts; but no log and no state. */
export async function sameEvents(plan: SameEventsPlan): Promise<void> {
  let taken = 0;
  setDefaultSignalHandler(() => {
    taken += 1;
  });
  let returned = false;
  void signals(plan.signals).then(() => {
    returned = true;
  });
  // The first signal announces; with each of the next ones an execution shows another state, until it has shown all.
  for (let shown = 0; shown < plan.upserts; shown++) {
    await condition(() => taken > shown + 1 || taken === plan.signals.length);
    upsertSearchAttributes([{ key: STATE, value: 'running' }]);
  }
  await condition(() => taken === plan.signals.length && returned);
}
