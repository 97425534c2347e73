/** Which conversations there are, from Temporal's visibility: seconds behind, for people and dashboards. */
import { z } from 'zod';
import { undecodable } from '../log/decode.js';
import type { Conversation } from '../protocol/conversation.js';
import { UNDECODABLE } from '../protocol/log/inputs.js';
import { type ConversationMemo, MEMO, SEARCH_ATTRIBUTES, WORKFLOW_TYPES } from '../workflows/messages.js';
import type { Backend } from './backend.js';
import { isoTime } from './describe.js';
import { openToken, sealed } from './listing.js';

export const listConversationsFilterSchema = z.strictObject({
  /** Only those that take executions. Default: all. */
  open: z.literal(true).optional(),
  limit: z.int().min(1).max(1000).optional(),
  pageToken: z.string().max(10_000).optional(),
});
export type ListConversationsFilter = z.infer<typeof listConversationsFilterSchema>;

export interface ConversationList {
  readonly conversations: readonly Conversation[];
  /** Give it back as `pageToken` with the same filters; absent on the last page. */
  readonly nextPageToken?: string;
}

/** Temporal's WorkflowExecutionStatus. */
const RUNNING = 1;

export async function listConversations(backend: Backend, filter: ListConversationsFilter): Promise<ConversationList> {
  const { temporal, decode, tenant } = backend;
  const { namespace } = temporal.options;
  const query = [
    `WorkflowType = '${WORKFLOW_TYPES.conversation}'`,
    `${SEARCH_ATTRIBUTES.tenant} = '${tenant}'`,
    filter.open ? `ExecutionStatus = 'Running'` : `ExecutionStatus != 'ContinuedAsNew'`,
  ].join(' AND ');
  const sealOf = (body: string): string => sealed(namespace, query, body);
  const response = await temporal.workflowService.listWorkflowExecutions({
    namespace,
    query,
    pageSize: filter.limit ?? 100,
    ...(filter.pageToken === undefined ? {} : { nextPageToken: openToken(filter.pageToken, sealOf) }),
  });
  const found = (response.executions ?? []).map(async (info): Promise<Conversation[]> => {
    const workflowId = info.execution?.workflowId ?? '';
    const payload = info.memo?.fields?.[MEMO.conversation];
    const [memo] = await decode([payload ?? {}], { type: 'workflow', namespace, workflowId });
    if (memo === UNDECODABLE && payload != null) throw undecodable(`the memo of ${workflowId}`);
    const known = memo as Partial<ConversationMemo> | undefined;
    if (typeof known !== 'object' || known === null || known.id === undefined) return [];
    const { id, metadata = {}, createdAt = isoTime(info.startTime) ?? new Date(0).toISOString(), closed } = known;
    return [{ id, createdAt, metadata, closed: info.status !== RUNNING || closed === true }];
  });
  const conversations = (await Promise.all(found)).flat().filter((each) => !each.closed || filter.open !== true);
  const next = Buffer.from(response.nextPageToken ?? new Uint8Array()).toString('base64url');
  return { conversations, ...(next === '' ? {} : { nextPageToken: `${sealOf(next)}.${next}` }) };
}
