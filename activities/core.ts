/** What a workflow cannot do by itself; on the workflow queue, so that any worker can do it. */
import { Context } from '@temporalio/activity';
import type { Client } from '@temporalio/client';
import type { RunFold } from '../log/fold.js';
import { GRPC, grpcCode } from '../log/grpc.js';
import type { LogReader } from '../log/reader.js';
import { startFold } from '../log/reader.js';
import type { CoreActivities, FoldCheck } from '../workflows/messages.js';

export function coreActivities(client: Client, reader: LogReader): CoreActivities {
  return {
    async requestCancel(): Promise<void> {
      const { workflowId, runId } = execution();
      await client.workflow.getHandle(workflowId, runId).cancel();
    },

    async goneOf({ workflowIds }): Promise<readonly string[]> {
      const gone = await Promise.all(
        workflowIds.map(async (workflowId) => {
          try {
            const { status } = await client.workflow.getHandle(workflowId).describe();
            return status.name !== 'RUNNING';
          } catch (error) {
            if (grpcCode(error) === GRPC.NOT_FOUND) return true;
            throw error;
          }
        }),
      );
      return workflowIds.filter((_, i) => gone[i]);
    },

    async foldCheck({ marks }): Promise<FoldCheck> {
      const { workflowId, runId } = execution();
      let fold: RunFold | undefined;
      for (let token: Uint8Array | undefined; ; ) {
        const page = await reader.history.page({ workflowId, runId, ...(token === undefined ? {} : { token }) });
        for (const item of page.items) {
          if (item.kind === 'start') {
            fold = startFold(item);
            fold.begin();
          } else fold?.apply(item);
          if (fold !== undefined && fold.marks >= marks) return { head: fold.state.head, times: fold.times };
        }
        if (page.token.length === 0) throw new Error(`mark ${marks} is not in the history yet`);
        token = page.token;
      }
    },
  };
}

function execution(): { workflowId: string; runId: string } {
  const { workflowExecution } = Context.current().info;
  if (workflowExecution === undefined) throw new Error('only a workflow may ask for this');
  return workflowExecution;
}
