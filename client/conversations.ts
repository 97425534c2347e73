/** Conversations: made, found and closed. */
import { setTimeout as delay } from 'node:timers/promises';
import { TypedSearchAttributes } from '@temporalio/common';
import { GRPC, grpcCode, isMissingNamespace } from '../log/grpc.js';
import type { Conversation, CreateConversationRequest } from '../protocol/conversation.js';
import { HoldfastError } from '../protocol/errors.js';
import { jsonBytes } from '../protocol/json.js';
import { KIB } from '../protocol/limits.js';
import {
  CONVERSATION_SIGNALS,
  type ConversationMemo,
  type ConversationStart,
  MEMO,
  WORKFLOW_QUEUE,
  WORKFLOW_TASK_TIMEOUT_MS,
  WORKFLOW_TYPES,
} from '../workflows/messages.js';
import { type Backend, KEYS } from './backend.js';
import { describe } from './describe.js';
import { randomId } from './identity.js';

const MAX_METADATA_BYTES = 16 * KIB;
const CLOSE_WAIT_MS = 5_000;

export async function createConversation(backend: Backend, request: CreateConversationRequest): Promise<Conversation> {
  const { metadata = {}, closeAfterIdleDays } = request;
  if (jsonBytes(metadata) > MAX_METADATA_BYTES)
    throw new HoldfastError('VALIDATION_ERROR', `request.metadata: takes more than ${MAX_METADATA_BYTES} bytes`);
  const id = randomId('conv');
  const closesWhenIdle = closeAfterIdleDays === undefined ? {} : { closesWhenIdle: true as const };
  const conversation: ConversationMemo = { id, metadata, ...closesWhenIdle };
  const start: ConversationStart = {
    version: 1,
    tenant: backend.tenant,
    conversation,
    ...(closeAfterIdleDays === undefined ? {} : { closeAfterIdleDays }),
  };
  await backend.temporal.workflow.start(WORKFLOW_TYPES.conversation, {
    workflowId: backend.workflowId(id),
    taskQueue: WORKFLOW_QUEUE,
    workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
    args: [start],
    memo: { [MEMO.conversation]: conversation },
    typedSearchAttributes: new TypedSearchAttributes([
      { key: KEYS.tenant, value: backend.tenant },
      { key: KEYS.conversation, value: id },
    ]),
    staticSummary: `conversation ${id}`,
  });
  return (await findConversation(backend, id)).conversation;
}

export async function findConversation(
  backend: Backend,
  id: string,
): Promise<{
  readonly conversation: Conversation;
  readonly open: boolean;
  /** It closes itself when nothing happens, so it is to be told of what takes no turn. */
  readonly watchesIdle: boolean;
}> {
  const found = await describe(backend.temporal, backend.decode, backend.workflowId(id), [MEMO.conversation]);
  const memo = found.memo[MEMO.conversation] as ConversationMemo | undefined;
  if (found.type !== WORKFLOW_TYPES.conversation || memo === undefined)
    throw new HoldfastError('NOT_FOUND', `there is no conversation ${id}`);
  const { metadata, createdAt = found.startTime } = memo;
  const open = found.isRunning && memo.closed !== true;
  const watchesIdle = open && memo.closesWhenIdle === true;
  return { conversation: { id, createdAt, metadata, closed: !open }, open, watchesIdle };
}

/** Asks the conversation to close and waits until it is, so that no later start gets in. */
export async function closeConversation(backend: Backend, id: string): Promise<Conversation> {
  const { conversation, open } = await findConversation(backend, id);
  if (!open) return conversation;
  try {
    await backend.temporal.workflow.getHandle(backend.workflowId(id)).signal(CONVERSATION_SIGNALS.close, {});
  } catch (error) {
    if (grpcCode(error) !== GRPC.NOT_FOUND || isMissingNamespace(error)) throw error;
  }
  for (const until = Date.now() + CLOSE_WAIT_MS; Date.now() < until; await delay(25)) {
    const now = await findConversation(backend, id);
    if (!now.open) return now.conversation;
  }
  throw new HoldfastError(
    'RUNTIME_UNAVAILABLE',
    `conversation ${id} is asked to close, and will once a worker runs: is one polling?`,
  );
}
