import { randomBytes } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HoldfastClient } from '../../client/client.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import type { StartExecutionRequest } from '../../protocol/execution.js';
import type { AnyProvider } from '../../providers/provider.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { Cluster } from '../support/cluster.js';
import { AesCodec } from './fixtures/aes-codec.js';
import { refusal } from './refusal.js';

const failureConverterPath = fileURLToPath(new URL('./fixtures/failure-converter.cjs', import.meta.url));

function encrypted(): DataConverter {
  return { payloadCodecs: [new AesCodec(randomBytes(32))], failureConverterPath };
}

/** In everything that a caller or a provider says; then it is looked for in all that the server holds. */
const CANARY = 'CANARY-7f3a';

let cluster: Cluster;
let client: HoldfastClient;
let conversationId: string;

beforeAll(async () => {
  cluster = await Cluster.start({ dataConverter: encrypted() });
  client = cluster.client;
  await cluster.worker({ rollover: { batches: 6 }, providers: [scriptedProvider(), continuous()] });
  conversationId = (await client.createConversation({ metadata: { of: `${CANARY} conversation` } })).id;
});

afterAll(async () => {
  const compared = await cluster.stopCompared();
  expect(compared.equal).toBeGreaterThan(3);
});

/** Takes part in turns: its session and what was said go through the conversation to its next execution. */
function continuous(): AnyProvider {
  const provider = scriptedProvider({ id: 'continuous' });
  const capabilities = { ...provider.manifest.capabilities, 'conversation.continuity': 'emulated' as const };
  return { ...provider, manifest: { ...provider.manifest, capabilities } };
}

function run(steps: readonly object[], more: Partial<StartExecutionRequest> & { suspend?: boolean } = {}) {
  return cluster.run(steps, {
    conversationId,
    input: { text: `${CANARY} input` },
    metadata: { trace: `${CANARY} metadata` },
    ...more,
  });
}

const asks = {
  approve: {
    title: `${CANARY} title`,
    description: `${CANARY} description`,
    payload: { options: [{ id: 'yes', name: `${CANARY} option`, kind: 'allow_once' }] },
  },
};

/** One of each kind of life, so that every kind of message is in some history. */
async function live(): Promise<Record<string, string>> {
  const approves = await run([
    { say: `${CANARY} said`, chunk: 1, everyMs: 30 },
    {
      artifact: {
        name: `${CANARY} artifact`,
        mediaType: 'text/plain',
        uri: `file:///${CANARY}`,
        metadata: { a: CANARY },
      },
    },
    { native: { name: 'test.native', value: `${CANARY} native` } },
    { session: { id: `${CANARY} session` } },
    asks,
    { ask: { title: `${CANARY} question` } },
  ]);
  const first = await cluster.action(approves.id);
  await client.respond(approves.id, first.id, { approved: true, value: { optionId: 'yes', note: `${CANARY} note` } });
  const second = await cluster.action(approves.id, first.sequence);
  await client.respond(approves.id, second.id, { value: `${CANARY} answer` });
  const fails = await run([{ say: 'x' }, { fail: `${CANARY} error` }]);
  const refused = await run([
    { artifact: { id: 'a', name: CANARY, mediaType: CANARY } },
    { artifact: { id: 'a', name: CANARY, mediaType: 'b' } },
  ]);
  const cancelled = await run([asks]);
  await cluster.action(cancelled.id);
  await client.cancel(cancelled.id, `${CANARY} reason`);
  const suspends = await run([{ say: 'x' }, { record: `${CANARY} journal` }, asks, { say: `${CANARY} end` }], {
    suspend: true,
  });
  const action = await cluster.action(suspends.id);
  await client.respond(suspends.id, action.id, { approved: false });
  const keyed = await run([{ say: 'x' }], { idempotencyKey: `${CANARY} key` });
  const turn = [{ session: { id: `${CANARY} session` } }, { say: `${CANARY} turn` }];
  const before = await run(turn, { providerId: 'continuous' });
  const after = await run(turn, { providerId: 'continuous' });
  const lives = { approves, fails, refused, cancelled, suspends, keyed, before, after };
  await Promise.all(Object.values(lives).map(({ id }) => client.waitForTerminal(id)));
  return Object.fromEntries(Object.entries(lives).map(([name, { id }]) => [name, id]));
}

/** Where in a server's answer the word stands in clear; bytes are read as text, and base64 inside text too. */
function places(answer: unknown, word: string): string[] {
  const found: string[] = [];
  const look = (value: unknown, path: string): void => {
    if (typeof value === 'string' || value instanceof Uint8Array) {
      const text = typeof value === 'string' ? value : Buffer.from(value).toString('latin1');
      const decoded = (text.match(/[A-Za-z0-9+/_-]{16,}={0,2}/g) ?? []).map((part) =>
        Buffer.from(part, 'base64').toString('latin1'),
      );
      if ([text, ...decoded].some((each) => each.includes(word))) found.push(path);
    } else if (typeof value === 'object' && value !== null)
      for (const [key, member] of Object.entries(value)) look(member, `${path}.${key}`);
  };
  look(answer, '');
  return found;
}

/** All that the server tells of the namespace: lists, descriptions, every run's history, what the UI asks for. */
async function everything(plain: Client): Promise<Record<string, unknown>> {
  const { workflowService, options } = plain;
  const { namespace } = options;
  const all: Record<string, unknown> = {};
  const { executions } = await workflowService.listWorkflowExecutions({ namespace, pageSize: 1000 });
  for (const info of executions ?? []) {
    const execution = { workflowId: info.execution?.workflowId ?? '', runId: info.execution?.runId ?? '' };
    const name = `${execution.workflowId} ${execution.runId}`;
    all[`list ${name}`] = info;
    all[`description ${name}`] = await workflowService.describeWorkflowExecution({ namespace, execution });
    all[`details ${name}`] = await workflowService.queryWorkflow({
      namespace,
      execution,
      query: { queryType: '__temporal_workflow_metadata' },
    });
    for (let nextPageToken: Uint8Array | undefined, page = 0; page === 0 || nextPageToken?.length; page++) {
      const history = await workflowService.getWorkflowExecutionHistory({
        namespace,
        execution,
        nextPageToken: nextPageToken ?? null,
      });
      for (const event of history.history?.events ?? []) all[`history ${name} ${event.eventId}`] = event;
      nextPageToken = history.nextPageToken;
    }
  }
  return all;
}

describe('with a payload codec on both sides', () => {
  let ids: Record<string, string>;
  let plain: Client;

  beforeAll(async () => {
    plain = new Client({ connection: cluster.temporal.connection, namespace: 'default' });
    ids = await live();
  });

  it('nothing of what was said stands anywhere in clear on the server', async () => {
    // The closed status comes after the end of the log, and the list some time later.
    const open = async (): Promise<number> =>
      (await plain.workflow.count(`ExecutionStatus = 'Running' AND WorkflowType = 'execution'`)).count;
    await expect.poll(open, { timeout: 15_000 }).toBe(0);
    const all = await everything(plain);
    const found = Object.entries(all).flatMap(([name, answer]) => places(answer, CANARY).map((path) => name + path));
    expect(found).toEqual([]);
    // What has to be in clear is found, in every kind of answer: so the search does search.
    const kinds = new Set(
      Object.entries(all).flatMap(([name, answer]) =>
        places(answer, conversationId).length > 0 ? [name.split(' ')[0]] : [],
      ),
    );
    expect([...kinds].sort()).toEqual(['description', 'history', 'list']);
    expect(Object.keys(all).filter((name) => name.startsWith('list')).length).toBeGreaterThan(
      Object.keys(ids).length + 2,
    );
    // Among it the failure of a workflow, whose message is no payload by itself.
    const { events } = await cluster.handle(ids.fails!).fetchHistory();
    expect(events?.at(-1)?.workflowExecutionFailedEventAttributes?.failure?.message).toBe('Encoded failure');
  });

  it('all of it reads in clear through the client', async () => {
    const { approves, fails, cancelled, suspends, keyed } = ids as Record<string, string>;
    const execution = await client.getExecution(approves!);
    expect(execution).toMatchObject({
      state: 'succeeded',
      input: { text: `${CANARY} input` },
      metadata: { trace: `${CANARY} metadata` },
      finalOutput: `${CANARY} saidapproved${CANARY} answer`,
    });
    const log = await cluster.log(approves!);
    const data = (type: HoldfastEvent['type']) => log.filter((event) => event.type === type).map((event) => event.data);
    expect(data('action.required')).toMatchObject([{ title: `${CANARY} title` }, { title: `${CANARY} question` }]);
    expect(data('artifact.created')).toMatchObject([{ name: `${CANARY} artifact` }]);
    expect(data('provider.event')).toMatchObject([{ value: `${CANARY} native` }]);
    expect((await client.getExecution(fails!)).error?.message).toBe(`${CANARY} error`);
    expect((await cluster.log(cancelled!)).at(-1)?.data).toMatchObject({ reason: `${CANARY} reason` });
    expect((await client.getExecution(suspends!)).finalOutput).toBe(`xrejected${CANARY} end`);
    expect((await client.getConversation(conversationId)).metadata).toEqual({ of: `${CANARY} conversation` });
    const listed = await client.listExecutions({ conversationId, state: 'succeeded' });
    expect(listed.executions.map((each) => each.metadata)).toContainEqual({ trace: `${CANARY} metadata` });
    const replay = {
      conversationId,
      providerId: 'scripted',
      input: { text: `${CANARY} input` },
      config: { steps: [{ say: 'x' }] },
      idempotencyKey: `${CANARY} key`,
    };
    expect(await client.startExecution(replay)).toMatchObject({ replayed: true, execution: { id: keyed } });
  });

  it('what waits is listed with its title, which only the codec’s holders can read', async () => {
    const { id } = await run([asks]);
    await cluster.action(id);
    const pending = async () =>
      (await client.listExecutions({ conversationId, state: 'awaiting_approval' })).executions.flatMap((each) =>
        each.pendingActions.map((action) => action.title),
      );
    await expect.poll(pending, { timeout: 10_000 }).toEqual([`${CANARY} title`]);
    const execution = { workflowId: `default.${id}` };
    const raw = await plain.workflowService.describeWorkflowExecution({ namespace: 'default', execution });
    expect(raw.workflowExecutionInfo?.memo?.fields?.action).toBeDefined();
    const query = { queryType: '__temporal_workflow_metadata' };
    const details = await plain.workflowService.queryWorkflow({ namespace: 'default', execution, query });
    expect(places([raw, details], CANARY)).toEqual([]);
    const shown = await cluster.handle(id).query<{ currentDetails: string }>(query.queryType);
    expect(shown.currentDetails).toContain(`${CANARY} title`);
    await client.cancel(id);
    await client.waitForTerminal(id);
  });

  it('a worker without it, or with another key, is told so, and breaks nothing', async () => {
    for (const dataConverter of [{}, encrypted()]) {
      const refused = await refusal(cluster.worker({ dataConverter }));
      expect(refused.code).toBe('RUNTIME_UNAVAILABLE');
      expect(refused.message).toMatch(/holdfast-catalog cannot be decoded here/);
    }
    const providers = (await client.describeRuntime()).providers.map((provider) => provider.id);
    expect(providers.sort()).toEqual(['continuous', 'scripted']);
    const { id } = await run([{ say: 'as before' }]);
    expect((await client.waitForTerminal(id)).finalOutput).toBe('as before');
  });

  it.each([
    ['without it', undefined],
    ['with another key', encrypted()],
  ])('a client %s is told so, whatever it asks, and starts nothing', async (_, dataConverter) => {
    const { id } = await run([asks]);
    const action = await cluster.action(id);
    const options = { address: cluster.server.address, ...(dataConverter === undefined ? {} : { dataConverter }) };
    const stranger = await HoldfastClient.connect(options);
    const attempts = [
      stranger.getExecution(id),
      stranger.listEvents(id),
      stranger.events(id).next(),
      stranger.artifacts(id),
      stranger.waitForTerminal(id),
      stranger.listExecutions({ conversationId }),
      stranger.getConversation(conversationId),
      stranger.describeRuntime(),
      stranger.startExecution({ conversationId, providerId: 'scripted', input: 1, idempotencyKey: 'new' }),
      stranger.startExecution({ conversationId, providerId: 'scripted', input: 1, idempotencyKey: `${CANARY} key` }),
    ];
    for (const refused of await Promise.all(attempts.map(refusal))) {
      expect(refused.code).toBe('RUNTIME_UNAVAILABLE');
      expect(refused.message).toMatch(/cannot be decoded here.*dataConverter/);
    }
    await stranger.close();
    expect((await client.getExecution(id)).state).toBe('awaiting_approval');
    await client.respond(id, action.id, { approved: true, value: { optionId: 'yes' } });
    expect((await client.waitForTerminal(id)).state).toBe('succeeded');
  });
});
