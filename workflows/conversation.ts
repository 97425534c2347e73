/**
 * One entity workflow per conversation. What it is stands in its memo, so that it is readable with no worker; it does
 * nothing by itself but live on, and starts a new run now and then so that its history stays small.
 */
import { condition, log, makeContinueAsNewFunc, setDefaultSignalHandler, workflowInfo } from '@temporalio/workflow';
import { type ConversationStart, MEMO } from './messages.js';

export async function conversation(start: ConversationStart): Promise<void> {
  setDefaultSignalHandler((name) => log.warn('a conversation takes no such signal', { signal: name }));
  await condition(() => workflowInfo().continueAsNewSuggested);
  const createdAt = start.conversation.createdAt ?? workflowInfo().startTime.toISOString();
  const next = { ...start.conversation, createdAt };
  // A memo does not pass to the next run by itself.
  await makeContinueAsNewFunc<typeof conversation>({ memo: { [MEMO.conversation]: next } })({
    ...start,
    conversation: next,
  });
}
