/** The scenario `hang`, cancelled while it runs and watched meanwhile; once for all checks that look at it. */
import { setTimeout as delay } from 'node:timers/promises';
import type { HoldfastEvent } from '../../protocol/event.js';
import { type ExecutionState, isTerminal } from '../../protocol/lifecycle.js';
import { type Finished, type Kit, must, mustEqual } from '../kit.js';

export interface CancelledRun extends Finished {
  /** As they were seen, from the start on. */
  readonly states: readonly ExecutionState[];
  /** As it was when the request was first seen in effect, and as the cancel after that gave it back. */
  readonly first: ExecutionState;
  readonly second: ExecutionState;
  /** The log as it was in the first of these moments. */
  readonly known: readonly HoldfastEvent[];
}

export function cancelledRun(kit: Kit): Promise<CancelledRun> {
  return kit.once('cancelled', async () => {
    const { id } = await kit.start(kit.scenarios.hang);
    const states: ExecutionState[] = ['queued'];
    const end = performance.now() + kit.options.timeoutMs;
    const watch = async (isThere: (state: ExecutionState) => boolean): Promise<ExecutionState> => {
      for (;;) {
        const { state } = await kit.client.getExecution(id);
        if (states.at(-1) !== state) states.push(state);
        if (isThere(state) || performance.now() > end) return state;
        await delay(10);
      }
    };
    await watch((state) => state === 'running' || isTerminal(state));
    await kit.client.cancel(id, 'enough');
    // What `cancel` gives back may still be from before it: a server can have things on their way.
    const first = await watch((state) => state === 'cancelling' || isTerminal(state));
    const { events: known } = await kit.client.listEvents(id, { limit: 10_000 });
    const { state: second } = await kit.client.cancel(id, 'once more');
    await watch(isTerminal);
    return { ...(await cancelled(kit, id)), states, first, second, known };
  });
}

/** Waits for the end of what was cancelled. */
export async function cancelled(kit: Kit, id: string): Promise<Finished> {
  const finished = await kit.finish(id);
  must(finished.execution.state === 'cancelled', `after a cancel it is ${finished.execution.state}`);
  mustEqual('the last event', finished.events.at(-1)?.type, 'run.cancelled');
  return finished;
}

export function endOf(events: readonly HoldfastEvent[]): (HoldfastEvent & { type: 'run.cancelled' }) | undefined {
  const last = events.at(-1);
  return last?.type === 'run.cancelled' ? last : undefined;
}

export function confirmationOf(events: readonly HoldfastEvent[]): string | undefined {
  return endOf(events)?.data.confirmation;
}
