/** The activities of the bare workflows. */
import { Context } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import type { Arrivals } from '../support/arrivals.js';
import type { BareActivities } from '../workflows/messages.js';

export function bareActivities(client: Client, arrivals: Arrivals): BareActivities {
  return {
    async noop(id) {
      arrivals.arrived(id);
    },
    async signals(sizes) {
      const { workflowExecution } = Context.current().info;
      const handle = client.workflow.getHandle(workflowExecution?.workflowId ?? '', workflowExecution?.runId);
      for (const [i, bytes] of sizes.entries()) await handle.signal(`signal-${i}`, 'x'.repeat(bytes));
    },
  };
}
