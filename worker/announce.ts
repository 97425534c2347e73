/** What a worker tells the cluster, and checks of it, before it is ready. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { describe } from '../client/describe.js';
import { decoder } from '../log/decode.js';
import { GRPC, grpcCode, grpcMessage } from '../log/grpc.js';
import { HoldfastError } from '../protocol/errors.js';
import { canonicalJson, type Json } from '../protocol/json.js';
import type { RunContext } from '../providers/provider.js';
import {
  CATALOG_ANNOUNCE,
  CATALOG_WORKFLOW_ID,
  type CatalogEntry,
  type CatalogStart,
  MEMO,
  SEARCH_ATTRIBUTES,
  WORKFLOW_QUEUE,
  WORKFLOW_TASK_TIMEOUT_MS,
  WORKFLOW_TYPES,
} from '../workflows/messages.js';

/** `INDEXED_VALUE_TYPE_KEYWORD` of Temporal's API. */
const KEYWORD = 2;
const MIN_RETENTION_DAYS = 30;
const CATALOG_WAIT_MS = 20_000;

/** The search attributes must be there; retention should reach as far back as people expect to read. */
export async function checkNamespace(client: Client, namespace: string, log: RunContext['log']): Promise<void> {
  try {
    const known = await searchAttributes(client, namespace);
    const missing = Object.values(SEARCH_ATTRIBUTES).filter((name) => known !== undefined && known[name] !== KEYWORD);
    if (missing.length > 0) throw missingAttributes(missing, namespace);
    const { config } = await client.workflowService.describeNamespace({ namespace });
    const days = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) / 86_400;
    if (days < MIN_RETENTION_DAYS)
      log(
        'warn',
        `namespace ${namespace} keeps closed runs for ${days} day${days === 1 ? '' : 's'}; ${MIN_RETENTION_DAYS} or more are advised`,
      );
  } catch (error) {
    if (error instanceof HoldfastError) throw error;
    throw new HoldfastError('RUNTIME_UNAVAILABLE', `namespace ${namespace}: ${grpcMessage(error)}`, { cause: error });
  }
}

/** The namespace's custom attributes; undefined where the server does not tell (the first start will). */
async function searchAttributes(
  client: Client,
  namespace: string,
): Promise<Readonly<Record<string, number>> | undefined> {
  try {
    const { customAttributes } = await client.connection.operatorService.listSearchAttributes({ namespace });
    return customAttributes ?? {};
  } catch (error) {
    const code = grpcCode(error);
    if (code === GRPC.UNIMPLEMENTED || code === GRPC.PERMISSION_DENIED) return undefined;
    throw error;
  }
}

/** The one error for a cluster that was not set up. */
export function missingAttributes(missing: readonly string[], namespace: string): HoldfastError {
  return new HoldfastError(
    'RUNTIME_UNAVAILABLE',
    `namespace ${namespace} lacks the search attribute${missing.length > 1 ? 's' : ''} ${missing.join(', ')}; run: npx holdfast setup`,
    { details: { missing } },
  );
}

/** Announces each provider and resolves when the catalog shows them all. */
export async function announceProviders(client: Client, entries: readonly CatalogEntry[]): Promise<void> {
  const start: CatalogStart = { version: 1, entries: {} };
  for (const entry of entries) {
    await client.workflow.signalWithStart(WORKFLOW_TYPES.catalog, {
      workflowId: CATALOG_WORKFLOW_ID,
      taskQueue: WORKFLOW_QUEUE,
      workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
      args: [start],
      signal: CATALOG_ANNOUNCE,
      signalArgs: [entry],
      staticSummary: 'Holdfast: which providers there are',
    });
  }
  const until = Date.now() + CATALOG_WAIT_MS;
  for (;;) {
    const shown = await catalogEntries(client);
    if (entries.every((entry) => same(shown[entry.manifest.id], entry))) return;
    if (Date.now() > until)
      throw new HoldfastError(
        'RUNTIME_UNAVAILABLE',
        `the catalog (workflow ${CATALOG_WORKFLOW_ID}) did not take the announcement: it is full (see its worker's log), or a worker of another version polls the queue ${WORKFLOW_QUEUE}`,
      );
    await delay(50);
  }
}

/** Before a worker takes any task: with another codec than its callers it could do nothing but fail them. */
export async function checkCodec(client: Client): Promise<void> {
  await catalogEntries(client);
}

/** What the catalog shows. Throws `RUNTIME_UNAVAILABLE` when it was written with a codec, or a key, that is not ours. */
async function catalogEntries(client: Client): Promise<Readonly<Record<string, CatalogEntry>>> {
  const decode = decoder(client.options.loadedDataConverter.payloadCodecs);
  try {
    const { memo } = await describe(client, decode, CATALOG_WORKFLOW_ID, [MEMO.catalog]);
    return (memo[MEMO.catalog] ?? {}) as Readonly<Record<string, CatalogEntry>>;
  } catch (error) {
    if (grpcCode(error) === GRPC.NOT_FOUND) return {};
    throw error;
  }
}

function same(a: CatalogEntry | undefined, b: CatalogEntry): boolean {
  return a !== undefined && canonicalJson(a as unknown as Json) === canonicalJson(b as unknown as Json);
}
