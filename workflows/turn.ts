/** An execution and the turn of its conversation: asking for it, and handing it on. */
import { condition, getExternalWorkflowHandle } from '@temporalio/workflow';
import { workflowIdOf } from '../protocol/ids.js';
import { tailWithin } from '../protocol/json.js';
import type { LogState } from '../protocol/log/state.js';
import { briefInput, MAX_TURN_BYTES } from '../protocol/turns.js';
import { CONVERSATION_SIGNALS } from './messages.js';

async function tell(state: LogState, signal: 'ready' | 'release' | 'gone', fields: object): Promise<void> {
  const { tenant, conversationId, executionId } = state;
  const handle = getExternalWorkflowHandle(workflowIdOf(tenant, conversationId));
  await handle.signal(CONVERSATION_SIGNALS[signal], { executionId, ...fields });
}

/** How long a turn is waited for before the conversation is told again, at first and at most. */
const AGAIN_MIN_MS = 30_000;
const AGAIN_MAX_MS = 2 * 3_600_000;

/**
 * Says that this execution is there and wants its turn, again and again while it `waits`: so it learns of a conversation
 * that was terminated, and one that had taken it for gone knows better. Rejects when the conversation has ended.
 */
export async function waitForTurn(state: LogState, waits: () => boolean): Promise<void> {
  for (let pause = AGAIN_MIN_MS; waits(); pause = Math.min(AGAIN_MAX_MS, pause * 2)) {
    await tell(state, 'ready', { providerId: state.providerId });
    await condition(() => !waits(), pause);
  }
}

/** Hands the turn on, with the native session and what was said. A conversation that has ended needs nothing. */
export async function releaseTurn(state: LogState): Promise<void> {
  const { request, hasTurn, providerId, executionId, session, result } = state;
  if (!request.needsTurn) return;
  const output = result !== undefined && 'finalOutput' in result ? result.finalOutput : undefined;
  const fields = {
    providerId,
    ...(session === undefined ? {} : { session }),
    ...(output === undefined
      ? {}
      : { turn: { executionId, input: briefInput(request.input), output: tailWithin(output, MAX_TURN_BYTES) } }),
  };
  await tell(state, hasTurn ? 'release' : 'gone', hasTurn ? fields : {}).catch(() => undefined);
}
