/**
 * Anyone may send a signal by any name, also one under `__temporal_`, which the SDK keeps for itself: beside a default
 * handler it throws on one, and that fails every later workflow task. Here such a signal gets a name that nobody knows,
 * so that it is dropped like any other unknown one. Bundled with the workflows.
 */
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow';

const RESERVED = '__temporal_';

export const interceptors: WorkflowInterceptorsFactory = () => ({
  internals: [
    {
      activate(input, next) {
        for (const { signalWorkflow } of input.activation.jobs ?? [])
          if (signalWorkflow?.signalName?.startsWith(RESERVED))
            signalWorkflow.signalName = `reserved:${signalWorkflow.signalName}`;
        next(input);
      },
    },
  ],
});
