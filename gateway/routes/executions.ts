/** Executions: start, read, wait, list and cancel them. */
import { z } from 'zod';
import { HoldfastError } from '../../protocol/errors.js';
import type { Execution } from '../../protocol/execution.js';
import { isTerminal } from '../../protocol/lifecycle.js';
import type { GatewayContext } from '../context.js';
import { idempotencyKeyOf } from '../idempotency.js';
import { type AnyOperation, type Call, operation } from '../operation.js';
import { DEFAULT_TTL_SECONDS } from '../read-tokens.js';
import {
  artifactList,
  cancelRequest,
  conversationId,
  execution,
  executionId,
  executionList,
  json,
  providerId,
  readToken,
  readTokenRequest,
  startExecution,
  state,
  wholeNumber,
} from '../schemas.js';
import type { GatewayClient, Settings } from '../settings.js';

/** How long a request may wait for the end, in seconds, and how long a cancel waits for its confirmation, in ms. */
const MAX_WAIT_SECONDS = 300;
const CANCEL_WAIT_MS = 2_000;

const time = (what: string) => z.iso.datetime({ offset: true }).meta({ description: what });

/** The filters of a list, but for the conversation. */
export const listQuery = {
  state: state.optional(),
  providerId: providerId.optional(),
  after: time('Created after this moment (ISO 8601).').optional(),
  before: time('Created before this moment. Executions that have rolled over since may be missing.').optional(),
  limit: wholeNumber(1, 1000, 'Executions a page. Default 100.').optional(),
  pageToken: z.string().max(10_000).meta({ description: 'The `nextPageToken` of the page before.' }).optional(),
};

const idempotencyKey = z
  .string()
  .min(1)
  .max(200)
  .optional()
  .meta({ description: 'As `idempotencyKey` in the body: a repeated request returns the original execution.' });

export function executionOperations(): AnyOperation[] {
  return [
    operation({
      method: 'get',
      path: '/v1/executions',
      id: 'listExecutions',
      tag: 'Executions',
      summary: 'List executions, newest first',
      description: 'Comes from an index that is seconds behind; `starting` counts as `queued`.',
      query: { ...listQuery, conversationId: conversationId.optional() },
      replies: { 200: json('One page.', executionList) },
      handle: async ({ c, client, query }) => c.json(await client.listExecutions(query)),
    }),
    operation({
      method: 'post',
      path: '/v1/executions',
      id: 'startExecution',
      tag: 'Executions',
      summary: 'Start an execution',
      description:
        'Answers once it is accepted durably. With an idempotency key, an equivalent request returns the original and says so in `Idempotency-Replayed`. After a 503 the outcome is unknown: repeat it with the same key.',
      headers: { 'Idempotency-Key': idempotencyKey },
      body: startExecution,
      replies: {
        202: {
          ...json('The execution, or the original of its idempotency key.', execution),
          headers: z.object({ 'Idempotency-Replayed': z.literal('true').optional() }),
        },
      },
      problems: [
        'NOT_FOUND',
        'PROVIDER_NOT_FOUND',
        'CAPABILITY_UNSUPPORTED',
        'IDEMPOTENCY_CONFLICT',
        'INVALID_STATE',
        'QUOTA_EXCEEDED',
      ],
      handle: async ({ c, client, body }) => {
        const key = idempotencyKeyOf(c);
        if (key !== undefined && body.idempotencyKey !== undefined && key !== body.idempotencyKey)
          throw new HoldfastError('VALIDATION_ERROR', 'the Idempotency-Key header differs from body.idempotencyKey');
        const started = await client.startExecution(key === undefined ? body : { ...body, idempotencyKey: key });
        if (started.replayed) c.header('Idempotency-Replayed', 'true');
        return c.json(started.execution, 202);
      },
    }),
    operation({
      method: 'get',
      path: '/v1/executions/{id}',
      id: 'getExecution',
      tag: 'Executions',
      summary: 'Read an execution, or wait for its end',
      description: 'Read from its log, which needs no worker. One that failed is 200 too, with its `error`.',
      params: { id: executionId },
      query: {
        waitSeconds: wholeNumber(
          0,
          MAX_WAIT_SECONDS,
          'Answer when it has ended, or after so many seconds as it then is.',
        ).optional(),
      },
      replies: { 200: json('The execution as it is now.', execution) },
      problems: ['NOT_FOUND'],
      handle: async ({ c, client, params, query, settings }) => {
        const seconds = c.req.method === 'HEAD' ? 0 : (query.waitSeconds ?? 0);
        if (seconds === 0) return c.json(await client.getExecution(params.id));
        return c.json(await whileConnected(c, settings, (signal) => wait(client, params.id, seconds * 1000, signal)));
      },
    }),
    operation({
      method: 'post',
      path: '/v1/executions/{id}:cancel',
      id: 'cancelExecution',
      tag: 'Executions',
      summary: 'Ask for an execution to be cancelled',
      description:
        'Waits up to 2 s for `cancelled` and returns the execution as it then is; `run.cancelled` in its log confirms it. One that has ended is returned unchanged.',
      params: { id: executionId },
      body: cancelRequest,
      replies: { 200: json('The execution.', execution) },
      problems: ['NOT_FOUND'],
      handle: async ({ c, client, params, body, settings }) => {
        const asked = await client.cancel(params.id, body.reason);
        if (isTerminal(asked.state)) return c.json(asked);
        return c.json(await whileConnected(c, settings, (signal) => wait(client, params.id, CANCEL_WAIT_MS, signal)));
      },
    }),
    operation({
      method: 'get',
      path: '/v1/executions/{id}/artifacts',
      id: 'listArtifacts',
      tag: 'Executions',
      summary: 'The descriptors of what an execution made, in order of creation',
      description: 'Where the bytes are, `uri` says, if the provider gave one; they never pass through here.',
      params: { id: executionId },
      replies: { 200: json('The artifacts.', artifactList) },
      problems: ['NOT_FOUND', 'EVENTS_EXPIRED'],
      handle: async ({ c, client, params }) => c.json({ artifacts: await client.artifacts(params.id) }),
    }),
    operation({
      method: 'post',
      path: '/v1/executions/{id}:readToken',
      id: 'createReadToken',
      tag: 'Executions',
      summary: "A short-lived token for one execution's events",
      description:
        'For an EventSource in a browser, which sends no headers: `GET /v1/executions/{id}/events?access_token=…`. A stream that is open when it expires ends; to connect again takes a new one.',
      params: { id: executionId },
      body: readTokenRequest,
      replies: { 200: json('The token, and when it expires.', readToken) },
      problems: ['NOT_FOUND'],
      handle: readTokenFor,
    }),
  ];
}

async function readTokenFor({
  c,
  client,
  params,
  body,
  settings,
}: Call<
  { id: typeof executionId },
  object & Record<never, never>,
  z.output<typeof readTokenRequest>
>): Promise<Response> {
  const { id } = await client.getExecution(params.id);
  return c.json(settings.readTokens.issue(client.tenant, id, body.ttlSeconds ?? DEFAULT_TTL_SECONDS));
}

/** The execution once it has ended, or as it is after `timeoutMs`, or when `signal` aborts. */
async function wait(client: GatewayClient, id: string, timeoutMs: number, signal: AbortSignal): Promise<Execution> {
  try {
    return await client.waitForTerminal(id, { timeoutMs, signal });
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== 'RUNTIME_UNAVAILABLE') throw error;
    // It did not end in time, or cannot be read: reading it tells which.
    return await client.getExecution(id);
  }
}

/** Waits no longer than there is someone to answer and the gateway goes on. */
async function whileConnected<T>(
  c: GatewayContext,
  settings: Settings,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const leaving = new AbortController();
  const leave = (): void => leaving.abort();
  const sources = [c.req.raw.signal, settings.closing.signal];
  if (sources.some((source) => source.aborted)) leave();
  for (const source of sources) source.addEventListener('abort', leave, { once: true });
  try {
    return await work(leaving.signal);
  } finally {
    for (const source of sources) source.removeEventListener('abort', leave);
  }
}
