/** Whether work that is submitted now would be taken up: the server answers, and a worker polls. */
import type { Client } from '@temporalio/client';
import { HoldfastError } from '../protocol/errors.js';
import { WORKFLOW_QUEUE } from '../workflows/messages.js';
import { translate } from './translate.js';

export interface Readiness {
  readonly ready: boolean;
  /** What is missing, each with what to do about it. Empty when ready. */
  readonly missing: readonly string[];
}

/** `TASK_QUEUE_TYPE_WORKFLOW` of Temporal's API. */
const WORKFLOW_TASKS = 1;

/** A poll lasts up to a minute and the server keeps names for five; one as old as this has not come back. */
const POLLER_AGE_MS = 75_000;
const CALL_MS = 3_000;

/** Looks once, for 3 s at most. Throws nothing: what went wrong is what is missing. */
export async function readiness(client: Client): Promise<Readiness> {
  const { namespace } = client.options;
  try {
    const { pollers } = await client.withDeadline(Date.now() + CALL_MS, () =>
      client.workflowService.describeTaskQueue({
        namespace,
        taskQueue: { name: WORKFLOW_QUEUE },
        taskQueueType: WORKFLOW_TASKS,
      }),
    );
    const oldest = Date.now() - POLLER_AGE_MS;
    const alive = (pollers ?? []).some(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1000 > oldest);
    if (alive) return { ready: true, missing: [] };
    return { ready: false, missing: [`no worker polls the queue "${WORKFLOW_QUEUE}": start one (holdfast worker)`] };
  } catch (error) {
    const { message } = error instanceof HoldfastError ? error : translate(error, `namespace ${namespace}`);
    return { ready: false, missing: [message] };
  }
}
