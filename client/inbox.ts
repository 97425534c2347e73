/**
 * What waits for a person, across executions: one list call, since the open action stands in each execution's memo. It
 * comes from Temporal's visibility, so it is seconds behind and the server cannot sort it; look at the execution before
 * you decide on anything.
 */
import type { Client } from '@temporalio/client';
import { z } from 'zod';
import type { Decode } from '../log/decode.js';
import { HoldfastError } from '../protocol/errors.js';
import type { ExecutionSummary } from '../protocol/execution.js';
import { listPage, sealed, waitingQuery } from './listing.js';

/** So many executions are read to sort them; when more wait, the answer says so. */
const MAX_SORTED = 10_000;
const PAGE = 1_000;

export const inboxFilterSchema = z.strictObject({
  /** `newest`: the newest execution first. `oldest`: what has waited longest first, of at most 10,000. Default `newest`. */
  order: z.enum(['newest', 'oldest']).optional(),
  limit: z.int().min(1).max(PAGE).optional(),
  pageToken: z.string().max(10_000).optional(),
});
export type InboxFilter = z.infer<typeof inboxFilterSchema>;

/** An open action and where it belongs. */
export interface PendingAction {
  readonly id: string;
  readonly kind: 'approval' | 'input';
  readonly title: string;
  /** ISO 8601. */
  readonly createdAt: string;
  /** When it expires if nobody answers. */
  readonly expiresAt?: string;
  readonly executionId: string;
  readonly conversationId: string;
  readonly providerId: string;
}

export interface Inbox {
  readonly actions: readonly PendingAction[];
  /** Give it back as `pageToken` with the same order; absent on the last page. */
  readonly nextPageToken?: string;
  /** When the server was asked, ISO 8601. What it knows may be some seconds older. */
  readonly readAt: string;
  /** More than 10,000 executions wait: those beyond were not sorted and are not in here. Only with `order: oldest`. */
  readonly truncated: boolean;
}

export async function listInbox(client: Client, decode: Decode, tenant: string, filter: InboxFilter): Promise<Inbox> {
  const query = waitingQuery(tenant);
  const readAt = new Date().toISOString();
  if (filter.order !== 'oldest') {
    const page = await listPage(client, decode, query, filter);
    const { nextPageToken } = page;
    return {
      actions: page.executions.flatMap(actionsOf),
      ...(nextPageToken === undefined ? {} : { nextPageToken }),
      readAt,
      truncated: false,
    };
  }
  const sealOf = (body: string): string => sealed(client.options.namespace, `${query} oldest`, body);
  const from = filter.pageToken === undefined ? '' : keyOf(filter.pageToken, sealOf);
  const { executions, truncated } = await allWaiting(client, decode, query);
  const sorted = executions.flatMap(actionsOf).sort((a, b) => (key(a) < key(b) ? -1 : 1));
  const rest = sorted.filter((action) => key(action) > from);
  const actions = rest.slice(0, filter.limit ?? 100);
  const last = actions.at(-1);
  const body = last === undefined ? '' : Buffer.from(key(last)).toString('base64url');
  const more = rest.length > actions.length && last !== undefined;
  return { actions, ...(more ? { nextPageToken: `${sealOf(body)}.${body}` } : {}), readAt, truncated };
}

/** Where an action stands among all: pages go on after a key, so that what changes between them repeats nothing. */
function key(action: PendingAction): string {
  return `${action.createdAt} ${action.executionId} ${action.id}`;
}

function keyOf(token: string, sealOf: (body: string) => string): string {
  const dot = token.indexOf('.');
  const body = token.slice(dot + 1);
  if (dot < 0 || token.slice(0, dot) !== sealOf(body))
    throw new HoldfastError('VALIDATION_ERROR', 'pageToken: use the token of the last page with the same filters');
  return Buffer.from(body, 'base64url').toString();
}

async function allWaiting(
  client: Client,
  decode: Decode,
  query: string,
): Promise<{ readonly executions: readonly ExecutionSummary[]; readonly truncated: boolean }> {
  const executions: ExecutionSummary[] = [];
  for (let pageToken: string | undefined; ; ) {
    const page = await listPage(client, decode, query, { limit: PAGE, pageToken });
    executions.push(...page.executions);
    pageToken = page.nextPageToken;
    if (pageToken === undefined) return { executions, truncated: false };
    if (executions.length >= MAX_SORTED) return { executions: executions.slice(0, MAX_SORTED), truncated: true };
  }
}

function actionsOf(execution: ExecutionSummary): PendingAction[] {
  const { id: executionId, conversationId, providerId } = execution;
  return execution.pendingActions.map(({ id, kind, title, createdAt, expiresAt }) => ({
    id,
    kind,
    title,
    createdAt,
    ...(expiresAt === undefined ? {} : { expiresAt }),
    executionId,
    conversationId,
    providerId,
  }));
}
