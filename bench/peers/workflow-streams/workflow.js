import { condition, defineSignal, proxyActivities, setHandler } from '@temporalio/workflow';
import { WorkflowStream } from '@temporalio/workflow-streams/workflow';

const { publish } = proxyActivities({ startToCloseTimeout: '10 minutes', retry: { maximumAttempts: 1 } });

/** An activity publishes, outside a subscriber reads; the workflow ends when that has read it all. */
export async function streamed(task) {
  new WorkflowStream();
  let closed = false;
  setHandler(defineSignal('close'), () => {
    closed = true;
  });
  await publish(task);
  await condition(() => closed);
}
