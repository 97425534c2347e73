/** The activities of the bare workflows. */
import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import type { Arrivals } from '../support/arrivals.js';
import type { BareActivities } from '../workflows/messages.js';

export function bareActivities(client: Client, arrivals: Arrivals): BareActivities {
  return {
    async noop(id) {
      arrivals.arrived(id);
    },
    async signals(signals) {
      const { workflowExecution } = Context.current().info;
      const handle = client.workflow.getHandle(workflowExecution?.workflowId ?? '', workflowExecution?.runId);
      for (const [i, { bytes, afterMs }] of signals.entries()) {
        if (afterMs > 0) await delay(afterMs);
        await handle.signal(`signal-${i}`, 'x'.repeat(bytes));
      }
    },
  };
}
