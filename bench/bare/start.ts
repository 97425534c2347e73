/** Starting the bare workflows, with what an execution's start carries too where that is to be the same. */
import type { Client, WorkflowHandle, WorkflowStartOptions } from '@temporalio/client';
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import { SEARCH_ATTRIBUTES } from '../../workflows/messages.js';
import { BARE_QUEUE } from '../workflows/messages.js';

type BareType = 'bare' | 'mailbox' | 'sameEvents' | 'signalToActivity';

export async function startBare(
  client: Client,
  type: BareType,
  workflowId: string,
  args: readonly unknown[],
  more: Partial<WorkflowStartOptions> = {},
): Promise<WorkflowHandle> {
  const options = { taskQueue: BARE_QUEUE, workflowId, args: [...args], ...more };
  return await client.workflow.start(type, options as WorkflowStartOptions);
}

/** A memo and search attributes like an execution's: the server stores and indexes as much. */
export function likeAnExecution(id: string): Partial<WorkflowStartOptions> {
  const keyword = (name: string) => defineSearchAttributeKey(name, 'KEYWORD');
  return {
    memo: { execution: { id, conversationId: id, providerId: 'bare', metadata: {} }, fingerprint: 'f'.repeat(64) },
    typedSearchAttributes: new TypedSearchAttributes(
      Object.values(SEARCH_ATTRIBUTES).map((name) => ({ key: keyword(name), value: name })),
    ),
    staticSummary: 'bare: go',
    staticDetails: `Execution \`${id}\` of conversation \`${id}\`, provider \`bare\`.`,
  };
}
