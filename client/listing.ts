/**
 * Executions by state, provider and conversation, from Temporal's visibility. It lags by seconds and cannot sort, so
 * nothing is decided on it; it is for people and dashboards.
 */
import { createHash } from 'node:crypto';
import type { Client } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';
import { type Decode, undecodable } from '../log/decode.js';
import { HoldfastError } from '../protocol/errors.js';
import type { ExecutionSummary, ListExecutionsFilter } from '../protocol/execution.js';
import type { ExecutionState } from '../protocol/lifecycle.js';
import { UNDECODABLE } from '../protocol/log/inputs.js';
import { type ActionMemo, type ExecutionMemo, MEMO, SEARCH_ATTRIBUTES, WORKFLOW_TYPES } from '../workflows/messages.js';
import { payloadConverter } from '../workflows/payload-converter.js';
import { isoTime } from './describe.js';

type Info = temporal.api.workflow.v1.IWorkflowExecutionInfo;

/** Temporal's WorkflowExecutionStatus. */
const STATUS = { running: 1, completed: 2, failed: 3, canceled: 4, terminated: 5, timedOut: 7 } as const;

export interface ExecutionList {
  readonly executions: readonly ExecutionSummary[];
  /** Give it back as `pageToken` with the same filters; absent on the last page. */
  readonly nextPageToken?: string;
}

const S = SEARCH_ATTRIBUTES;
const CUT_OFF = `(ExecutionStatus = 'Terminated' OR ExecutionStatus = 'TimedOut')`;
const WHERE: Record<ExecutionState, string> = {
  // In lists `starting` counts as `queued`: it lasts for milliseconds.
  queued: `ExecutionStatus = 'Running' AND ${S.state} = 'queued'`,
  starting: `ExecutionStatus = 'Running' AND ${S.state} = 'queued'`,
  running: `ExecutionStatus = 'Running' AND ${S.state} = 'running'`,
  awaiting_input: `ExecutionStatus = 'Running' AND ${S.state} = 'awaiting_input'`,
  awaiting_approval: `ExecutionStatus = 'Running' AND ${S.state} = 'awaiting_approval'`,
  cancelling: `ExecutionStatus = 'Running' AND ${S.state} = 'cancelling'`,
  succeeded: `ExecutionStatus = 'Completed'`,
  failed: `(ExecutionStatus = 'Failed' OR (${CUT_OFF} AND ${S.state} != 'cancelling'))`,
  cancelled: `(ExecutionStatus = 'Canceled' OR (${CUT_OFF} AND ${S.state} = 'cancelling'))`,
};

/**
 * The visibility query. Every value in it has been checked against the alphabet of ids, or is a time that we wrote. The
 * server knows when the current run began, so what rolled over since `before` is not found by it.
 */
function queryOf(tenant: string, filter: ListExecutionsFilter): string {
  return [
    `WorkflowType = '${WORKFLOW_TYPES.execution}'`,
    `${S.tenant} = '${tenant}'`,
    filter.state === undefined ? `ExecutionStatus != 'ContinuedAsNew'` : WHERE[filter.state],
    ...(filter.providerId === undefined ? [] : [`${S.provider} = '${filter.providerId}'`]),
    ...(filter.conversationId === undefined ? [] : [`${S.conversation} = '${filter.conversationId}'`]),
    ...(filter.after === undefined ? [] : [`StartTime > '${new Date(filter.after).toISOString()}'`]),
    ...(filter.before === undefined ? [] : [`StartTime < '${new Date(filter.before).toISOString()}'`]),
  ].join(' AND ');
}

/** Executions of the tenant that wait for a person. */
export function waitingQuery(tenant: string): string {
  return [
    `WorkflowType = '${WORKFLOW_TYPES.execution}'`,
    `${S.tenant} = '${tenant}'`,
    `ExecutionStatus = 'Running'`,
    `${S.state} IN ('awaiting_approval', 'awaiting_input')`,
  ].join(' AND ');
}

export async function listExecutions(
  client: Client,
  decode: Decode,
  tenant: string,
  filter: ListExecutionsFilter,
): Promise<ExecutionList> {
  const page = await listPage(client, decode, queryOf(tenant, filter), filter);
  if (filter.after === undefined) return page;
  // A run that began after it may go on an execution that was created before.
  const after = new Date(filter.after).toISOString();
  return { ...page, executions: page.executions.filter(({ createdAt }) => createdAt > after) };
}

/** One page of what a visibility query finds. A token is only taken with the query that it came from. */
export async function listPage(
  client: Client,
  decode: Decode,
  query: string,
  filter: { readonly limit?: number | undefined; readonly pageToken?: string | undefined },
): Promise<ExecutionList> {
  const { namespace } = client.options;
  const sealOf = (body: string): string => sealed(namespace, query, body);
  const response = await client.workflowService.listWorkflowExecutions({
    namespace,
    query,
    pageSize: filter.limit ?? 100,
    ...(filter.pageToken === undefined ? {} : { nextPageToken: openToken(filter.pageToken, sealOf) }),
  });
  const summaries = (response.executions ?? []).map((info) => summaryOf(info, namespace, decode));
  const next = Buffer.from(response.nextPageToken ?? new Uint8Array()).toString('base64url');
  return {
    executions: (await Promise.all(summaries)).filter((summary) => summary !== undefined),
    ...(next === '' ? {} : { nextPageToken: `${sealOf(next)}.${next}` }),
  };
}

/** What binds a token to its query. */
export function sealed(namespace: string, query: string, body: string): string {
  return createHash('sha256').update(`${namespace}\n${query}\n${body}`).digest('hex').slice(0, 16);
}

/** The seal covers the filters and the token itself, so one that was cut or mistyped never reaches the server. */
export function openToken(token: string, sealOf: (body: string) => string): Uint8Array {
  const dot = token.indexOf('.');
  const body = token.slice(dot + 1);
  if (dot < 0 || token.slice(0, dot) !== sealOf(body))
    throw new HoldfastError('VALIDATION_ERROR', 'pageToken: use the token of the last page with the same filters');
  return Buffer.from(body, 'base64url');
}

async function summaryOf(info: Info, namespace: string, decode: Decode): Promise<ExecutionSummary | undefined> {
  const fields = info.memo?.fields ?? {};
  const workflowId = info.execution?.workflowId ?? '';
  const wanted = [fields[MEMO.execution] ?? {}, fields[MEMO.action] ?? {}];
  const [memo, action] = await decode(wanted, { type: 'workflow', namespace, workflowId });
  if (memo === UNDECODABLE && fields[MEMO.execution] !== undefined) throw undecodable(`the memo of ${workflowId}`);
  const known = memo as Partial<ExecutionMemo> | undefined;
  if (typeof known !== 'object' || known === null || known.id === undefined) return undefined;
  // Search attributes pass through no codec: the server itself reads them.
  const attribute = info.searchAttributes?.indexedFields?.[S.state];
  const shown: unknown = attribute === undefined ? undefined : payloadConverter.fromPayload(attribute);
  const state = stateOf(info.status ?? 0, typeof shown === 'string' ? shown : 'queued');
  const open =
    state === 'awaiting_approval' || state === 'awaiting_input' ? (action as ActionMemo | undefined) : undefined;
  return {
    id: known.id,
    conversationId: known.conversationId ?? '',
    providerId: known.providerId ?? '',
    state,
    createdAt: known.createdAt ?? isoTime(info.startTime) ?? new Date(0).toISOString(),
    metadata: known.metadata ?? {},
    ...(info.status !== STATUS.running && info.closeTime ? { endedAt: isoTime(info.closeTime) } : {}),
    pendingActions: typeof open === 'object' && open !== null && typeof open.id === 'string' ? [open] : [],
  };
}

function stateOf(status: number, shown: string): ExecutionState {
  switch (status) {
    case STATUS.completed:
      return 'succeeded';
    case STATUS.failed:
      return 'failed';
    case STATUS.canceled:
      return 'cancelled';
    case STATUS.terminated:
    case STATUS.timedOut:
      return shown === 'cancelling' ? 'cancelled' : 'failed';
    default:
      return Object.hasOwn(WHERE, shown) ? (shown as ExecutionState) : 'queued';
  }
}
