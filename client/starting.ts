/**
 * Submitting an execution. Everything that can be refused is refused before anything is started; Temporal's own
 * uniqueness of workflow ids is the lock behind idempotency keys.
 */
import {
  ApplicationFailure,
  WorkflowExecutionAlreadyStartedError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { TypedSearchAttributes } from '@temporalio/common';
import { GRPC, grpcCode, isMissingNamespace } from '../log/grpc.js';
import { HoldfastError } from '../protocol/errors.js';
import type { Execution, StartExecutionRequest } from '../protocol/execution.js';
import { clip, type Json } from '../protocol/json.js';
import { REDUCER_VERSION } from '../protocol/log/state.js';
import { capabilityLevel } from '../protocol/manifest.js';
import {
  ADMIT_UPDATE,
  type AdmitAnswer,
  type CatalogEntry,
  CONVERSATION_SIGNALS,
  type ExecutionMemo,
  type ExecutionStart,
  MEMO,
  WORKFLOW_QUEUE,
  WORKFLOW_TASK_TIMEOUT_MS,
  WORKFLOW_TYPES,
} from '../workflows/messages.js';
import { type Backend, KEYS } from './backend.js';
import { findConversation } from './conversations.js';
import { describe } from './describe.js';
import { executionIdOf, fingerprint, randomId } from './identity.js';

/** How long a call that needs a worker may take, in milliseconds. */
const WORKER_CALL_MS = 2_000;

export interface StartedExecution {
  readonly execution: Execution;
  /** The idempotency key had been used: this is the original. */
  readonly replayed: boolean;
}

export async function startExecution(backend: Backend, request: StartExecutionRequest): Promise<StartedExecution> {
  const { conversationId, providerId, idempotencyKey: key } = request;
  const id = key === undefined ? randomId('exec') : executionIdOf(backend.tenant, conversationId, key);
  const print = fingerprint(request);
  // The key comes before all else: a retry finds its original also when its provider or conversation are gone, and
  // never refuses or interrupts itself.
  const original = key === undefined ? undefined : await findOriginal(backend, id, print);
  if (original !== undefined) return original;
  const [{ open, watchesIdle }, entry] = await Promise.all([
    findConversation(backend, conversationId),
    backend.catalog.get(providerId),
  ]);
  if (!open) throw closed(conversationId);
  backend.catalog.check(entry, request.requiredCapabilities ?? [], request.config ?? {});
  const needsTurn = capabilityLevel(entry.manifest, 'conversation.continuity') !== 'unsupported';
  if (needsTurn) await enqueue(backend, id, request);
  else if (watchesIdle) await tell(backend, conversationId, 'touch', {});
  try {
    await start(backend, id, request, entry, print, needsTurn);
  } catch (error) {
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
    const raced = await findOriginal(backend, id, print);
    if (raced !== undefined) return raced;
    const message = 'the original of this idempotency key is being deleted; repeat the request';
    throw new HoldfastError('RUNTIME_UNAVAILABLE', message, { cause: error });
  }
  return { execution: await backend.execution(id), replayed: false };
}

async function start(
  backend: Backend,
  id: string,
  request: StartExecutionRequest,
  entry: CatalogEntry,
  print: string,
  needsTurn: boolean,
): Promise<void> {
  const { conversationId, providerId, input, requiredCapabilities = [], config = {}, metadata = {} } = request;
  const argument: ExecutionStart = {
    version: REDUCER_VERSION,
    identity: { executionId: id, tenant: backend.tenant, conversationId, providerId },
    request: {
      input,
      requiredCapabilities,
      ...(request.preferredCapabilities === undefined ? {} : { preferredCapabilities: request.preferredCapabilities }),
      config,
      metadata,
      ...(request.timeoutSeconds === undefined ? {} : { timeoutSeconds: request.timeoutSeconds }),
      ...(needsTurn ? { needsTurn } : {}),
    },
    taskQueue: entry.taskQueue,
    pool: entry.pool,
  };
  const memo: ExecutionMemo = { id, conversationId, providerId, metadata };
  await backend.temporal.workflow.start(WORKFLOW_TYPES.execution, {
    workflowId: backend.workflowId(id),
    taskQueue: WORKFLOW_QUEUE,
    workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
    workflowIdReusePolicy: 'REJECT_DUPLICATE',
    args: [argument],
    memo: { [MEMO.execution]: memo, [MEMO.fingerprint]: print },
    typedSearchAttributes: new TypedSearchAttributes([
      { key: KEYS.state, value: 'queued' },
      { key: KEYS.provider, value: providerId },
      { key: KEYS.conversation, value: conversationId },
      { key: KEYS.tenant, value: backend.tenant },
    ]),
    staticSummary: clip(`${providerId}: ${inputLine(input)}`, 180),
    staticDetails: `Execution \`${id}\` of conversation \`${conversationId}\`, provider \`${providerId}\`.`,
  });
}

/** Takes a place in the conversation's order, just before the execution is started. */
async function enqueue(backend: Backend, id: string, request: StartExecutionRequest): Promise<void> {
  if (request.onBusy !== 'reject') {
    const interrupt = request.onBusy === 'interrupt' ? { first: true, interrupt: true } : {};
    return await tell(backend, request.conversationId, 'enqueue', { executionId: id, ...interrupt });
  }
  // Whether somebody is ahead can only be said in one place, so this needs a worker.
  const handle = backend.temporal.workflow.getHandle(backend.workflowId(request.conversationId));
  let answer: AdmitAnswer;
  try {
    answer = await backend.temporal.withDeadline(Date.now() + WORKER_CALL_MS, () =>
      handle.executeUpdate<AdmitAnswer, [string]>(ADMIT_UPDATE, { args: [id] }),
    );
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError && error.cause instanceof ApplicationFailure) throw error.cause;
    if (grpcCode(error) === GRPC.NOT_FOUND) throw closed(request.conversationId);
    throw new HoldfastError('RUNTIME_UNAVAILABLE', 'onBusy "reject" needs a worker, and none answered in time', {
      cause: error,
    });
  }
  if (answer.admitted) return;
  if (answer.closed) throw closed(request.conversationId);
  const holder = answer.holder === undefined ? '' : ` with ${answer.holder}`;
  throw new HoldfastError('INVALID_STATE', `conversation ${request.conversationId} is busy${holder}`, {
    details: answer.holder === undefined ? {} : { holder: answer.holder },
  });
}

async function tell(
  backend: Backend,
  conversationId: string,
  signal: 'enqueue' | 'touch',
  argument: object,
): Promise<void> {
  try {
    await backend.temporal.workflow
      .getHandle(backend.workflowId(conversationId))
      .signal(CONVERSATION_SIGNALS[signal], argument);
  } catch (error) {
    throw grpcCode(error) === GRPC.NOT_FOUND ? closed(conversationId) : error;
  }
}

function closed(conversationId: string): HoldfastError {
  return new HoldfastError('INVALID_STATE', `conversation ${conversationId} is closed`);
}

async function findOriginal(backend: Backend, id: string, print: string): Promise<StartedExecution | undefined> {
  try {
    const { memo } = await describe(backend.temporal, backend.decode, backend.workflowId(id), [MEMO.fingerprint]);
    if (memo[MEMO.fingerprint] !== print)
      throw new HoldfastError(
        'IDEMPOTENCY_CONFLICT',
        'this idempotency key was used in this conversation for another request; use a new key',
        { details: { executionId: id } },
      );
    return { execution: await backend.execution(id), replayed: true };
  } catch (error) {
    if (grpcCode(error) === GRPC.NOT_FOUND && !isMissingNamespace(error)) return undefined;
    throw error;
  }
}

function inputLine(input: Json): string {
  const text = typeof input === 'string' ? input : JSON.stringify(input);
  return text.replace(/\s+/g, ' ').trim();
}
