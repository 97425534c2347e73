import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { HoldfastClient } from '../../client/client.js';
import type { ListConversationsFilter } from '../../client/conversation-list.js';
import { type ExecutionSummary, executionSummarySchema, type ListExecutionsFilter } from '../../protocol/execution.js';
import { EXECUTION_STATES } from '../../protocol/lifecycle.js';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider } from '../../providers/provider.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { announceProviders } from '../../worker/announce.js';
import type { HoldfastWorker } from '../../worker/worker.js';
import { Cluster, QUICK_POOL } from '../support/cluster.js';
import { codeOf } from './refusal.js';

/** Visibility lags by seconds. */
const SOON = { timeout: 15_000, interval: 100 };

let cluster: Cluster;
let client: HoldfastClient;
let worker: HoldfastWorker;
let release: () => void = () => undefined;
const released = new Promise<void>((resolve) => {
  release = resolve;
});

/** Goes on until the test lets it go, whatever it is told: its executions stay `cancelling`. */
const stubborn: Provider = {
  manifest: {
    id: 'stubborn',
    name: 'Stubborn',
    version: '1.0.0',
    protocolVersion: PROTOCOL_VERSION,
    topologies: ['embedded'],
    capabilities: {},
  },
  config: z.strictObject({}),
  async run() {
    await released;
    return {};
  },
};

beforeAll(async () => {
  cluster = await Cluster.start();
  client = cluster.client;
  worker = await cluster.worker({
    providers: [scriptedProvider(), stubborn],
    rollover: { batches: 5 },
    pool: { heartbeatTimeoutMs: 60_000, leaseMs: 60_000, stopGraceMs: 60_000 },
  });
  // A provider whose workers are away: what is submitted to it waits.
  const { manifest } = scriptedProvider({ id: 'away' });
  await announceProviders(cluster.temporal, [{ manifest, taskQueue: 'nobody-polls-this', pool: QUICK_POOL }]);
});

afterAll(async () => {
  release();
  await cluster.stop();
});

async function list(filter: ListExecutionsFilter): Promise<ExecutionSummary[]> {
  const all: ExecutionSummary[] = [];
  for (let pageToken: string | undefined; ; ) {
    const page = await client.listExecutions({ ...filter, ...(pageToken === undefined ? {} : { pageToken }) });
    all.push(...page.executions);
    pageToken = page.nextPageToken;
    if (pageToken === undefined) return all;
  }
}

async function ids(filter: ListExecutionsFilter): Promise<string[]> {
  return (await list(filter)).map((execution) => execution.id).sort();
}

describe('a list of executions', () => {
  it('shows each by its state, its provider and its conversation', async () => {
    const { id: conversationId } = await client.createConversation();
    const run = async (steps: readonly object[], providerId = 'scripted'): Promise<string> => {
      const config = providerId === 'stubborn' ? {} : { steps: steps as never };
      const request = { conversationId, providerId, input: 'go', config, metadata: { for: providerId } };
      return (await client.startExecution(request)).execution.id;
    };
    const approve = [{ approve: { title: 'ok?' } }];
    const expected = {
      queued: [await run([], 'away')],
      running: [await run([{ hang: true }]), await run([], 'stubborn')],
      awaiting_approval: [await run(approve)],
      awaiting_input: [await run([{ ask: { title: 'what?' } }])],
      cancelling: [await run([], 'stubborn')],
      succeeded: [await run([{ say: 'x' }])],
      failed: [await run([{ fail: 'no' }]), await run(approve)],
      cancelled: [await run([{ hang: true }]), await run([], 'stubborn'), await run([], 'away')],
    };
    const [failing, terminated] = expected.failed as [string, string];
    const [stopped, cutOff, unseen] = expected.cancelled as [string, string, string];
    for (const id of [stopped, cutOff, ...expected.cancelling]) {
      await cluster.seen(id, (event) => event.type === 'run.started');
      await client.cancel(id);
    }
    await client.cancel(unseen);
    await cluster.action(terminated);
    await cluster.handle(terminated).terminate();
    await expect.poll(() => ids({ conversationId, state: 'cancelling' }), SOON).toContain(cutOff);
    await cluster.handle(cutOff).terminate();
    await client.waitForTerminal(failing);

    for (const [state, of] of Object.entries(expected) as [keyof typeof expected, string[]][])
      await expect.poll(() => ids({ conversationId, state }), SOON).toEqual([...of].sort());
    // It lasts for milliseconds, so it counts as queued.
    expect(await ids({ conversationId, state: 'starting' })).toEqual(expected.queued);
    expect(Object.keys(expected).concat('starting').sort()).toEqual([...EXECUTION_STATES].sort());

    const all = await list({ conversationId });
    expect(all.map((each) => each.id).sort()).toEqual(Object.values(expected).flat().sort());
    for (const summary of all) {
      executionSummarySchema.parse(summary);
      // What a list shows is what the execution itself says.
      const execution = await client.getExecution(summary.id);
      const { id, providerId, state, createdAt, metadata } = execution;
      expect(summary).toMatchObject({ id, conversationId, providerId, createdAt, metadata });
      expect(summary.state).toBe(state === 'starting' ? 'queued' : state);
      expect(summary.endedAt === undefined).toBe(execution.endedAt === undefined);
    }
    expect(await ids({ conversationId, providerId: 'away' })).toEqual([...expected.queued, unseen].sort());
    expect(await ids({ conversationId, providerId: 'nobody' })).toEqual([]);
    expect(await ids({ conversationId: 'conv_other' })).toEqual([]);
    expect(await ids({ conversationId, providerId: 'stubborn', state: 'cancelling' })).toEqual(expected.cancelling);
  });

  it('says when an execution was created, also of one that went through several runs', async () => {
    // Each record is a batch of its own, and it rolls over while it waits.
    const records = Array.from({ length: 6 }, (_, i) => ({ record: i }));
    const { id, conversationId, createdAt } = await cluster.run([...records, { approve: { title: 'ok?' } }]);
    const { id: actionId } = await cluster.action(id);
    const runs = async () => {
      const { runId, raw } = await cluster.handle(id).describe();
      return [runId, raw.workflowExecutionInfo?.firstRunId];
    };
    await expect.poll(async () => new Set(await runs()).size, SOON).toBe(2);
    await client.respond(id, actionId, { approved: true });
    await client.waitForTerminal(id);
    const listed = async () => (await list({ conversationId, state: 'succeeded' })).map((each) => each.createdAt);
    await expect.poll(listed, SOON).toEqual([createdAt]);
  });

  it('shows what is asked while it is asked, so that an inbox is one call', async () => {
    const { id, conversationId } = await cluster.run([
      { approve: { title: 'Deploy?', payload: { secret: 1 } } },
      { hang: true },
    ]);
    const action = await cluster.action(id);
    const [asked] = (await client.getExecution(id)).pendingActions;
    const { payload, executionId, digest, ...shown } = asked!;
    const pending = async () => (await list({ conversationId, state: 'awaiting_approval' }))[0]?.pendingActions;
    await expect.poll(pending, SOON).toEqual([shown]);
    await client.respond(id, action.id, { approved: true });
    await expect
      .poll(async () => (await list({ conversationId }))[0], SOON)
      .toMatchObject({
        state: 'running',
        pendingActions: [],
      });
  });
});

describe('pages', () => {
  it('neither repeat nor skip what was there, also when more comes meanwhile', async () => {
    const { id: conversationId } = await client.createConversation();
    const start = async (): Promise<string> =>
      (await client.startExecution({ conversationId, providerId: 'away', input: 1 })).execution.id;
    const there: string[] = [];
    for (let i = 0; i < 7; i++) there.push(await start());
    await expect.poll(() => ids({ conversationId }), SOON).toEqual([...there].sort());
    const seen: string[] = [];
    const sizes: number[] = [];
    for (let pageToken: string | undefined; ; ) {
      const page = await client.listExecutions({ conversationId, limit: 3, ...(pageToken ? { pageToken } : {}) });
      seen.push(...page.executions.map((each) => each.id));
      sizes.push(page.executions.length);
      pageToken = page.nextPageToken;
      if (pageToken === undefined) break;
      const late = await start();
      await expect.poll(() => ids({ conversationId }), SOON).toContain(late);
    }
    expect(seen.filter((id) => there.includes(id)).sort()).toEqual([...there].sort());
    expect(new Set(seen).size).toBe(seen.length);
    expect(Math.max(...sizes)).toBe(3);
  });

  it('take no token but that of their own last page', async () => {
    const { id: conversationId } = await client.createConversation();
    for (let i = 0; i < 3; i++) await client.startExecution({ conversationId, providerId: 'away', input: 1 });
    await expect.poll(async () => (await ids({ conversationId })).length, SOON).toBe(3);
    const filter = { conversationId, limit: 1 };
    const { nextPageToken: token = '' } = await client.listExecutions(filter);
    expect(await codeOf(client.listExecutions({ ...filter, pageToken: token }))).toBe('none');
    const wrong: ListExecutionsFilter[] = [
      { ...filter, pageToken: token, state: 'queued' },
      { ...filter, pageToken: token, providerId: 'away' },
      { limit: 1, pageToken: token },
      { ...filter, conversationId: `${conversationId}a`, pageToken: token },
      ...[1, 2, 3, 4, 8, 40].map((cut) => ({ ...filter, pageToken: token.slice(0, -cut) })),
      ...['', '.', 'x', token.slice(1), `${token}A`, token.replace('.', ''), `${token}.${token}`, '=', '\u0000'].map(
        (pageToken) => ({ ...filter, pageToken }),
      ),
      { ...filter, pageToken: swapped(token) },
    ];
    for (const given of wrong)
      expect([given, await codeOf(client.listExecutions(given))]).toEqual([given, 'VALIDATION_ERROR']);
    for (const options of [{ namespace: 'elsewhere' }, { tenant: 'other' }]) {
      const other = await cluster.anotherClient(options);
      expect([options, await codeOf(other.listExecutions({ ...filter, pageToken: token }))]).toEqual([
        options,
        'VALIDATION_ERROR',
      ]);
    }
  });

  it('have a size from 1 to 1000', async () => {
    for (const limit of [0, -1, 1.5, 1001, Number.NaN, '5' as never])
      expect(await codeOf(client.listExecutions({ limit }))).toBe('VALIDATION_ERROR');
    for (const limit of [1, 1000]) expect(await codeOf(client.listExecutions({ limit }))).toBe('none');
    expect(await codeOf(client.listExecutions({ state: 'done' as never }))).toBe('VALIDATION_ERROR');
    expect(await codeOf(client.listExecutions({ sate: 'queued' } as never))).toBe('VALIDATION_ERROR');
  });
});

/** Two characters of a token's body changed places: still base64, another token. */
function swapped(token: string): string {
  for (let i = token.length - 1; ; i--) {
    const [a, b] = [token[i - 1]!, token[i]!];
    if (a !== b) return token.slice(0, i - 1) + b + a + token.slice(i + 1);
  }
}

it('lists conversations by pages, those of its own tenant alone, and tells which are closed', async () => {
  const other = await cluster.anotherClient({ tenant: 'lists-conversations' });
  const made: string[] = [];
  for (const name of ['a', 'b', 'c']) made.push((await other.createConversation({ metadata: { name } })).id);
  await other.closeConversation(made[1] ?? '');
  const all = async (filter: ListConversationsFilter = {}): Promise<[unknown, boolean][]> => {
    const found: [unknown, boolean][] = [];
    let pageToken: string | undefined;
    do {
      const page = await other.listConversations({
        ...filter,
        limit: 2,
        ...(pageToken === undefined ? {} : { pageToken }),
      });
      for (const { metadata, closed } of page.conversations) found.push([metadata.name, closed]);
      pageToken = page.nextPageToken;
    } while (pageToken !== undefined);
    return found;
  };
  await expect
    .poll(async () => (await all()).sort(), SOON)
    .toEqual([
      ['a', false],
      ['b', true],
      ['c', false],
    ]);
  await expect
    .poll(async () => (await all({ open: true })).sort(), SOON)
    .toEqual([
      ['a', false],
      ['c', false],
    ]);
  const { nextPageToken } = await other.listConversations({ limit: 1 });
  expect(await codeOf(client.listConversations({ limit: 1, pageToken: nextPageToken }))).toBe('VALIDATION_ERROR');
});

/** Stops the worker, so it comes last. */
describe('with no worker running', () => {
  it('a list shows what there is, also what no worker has ever seen', async () => {
    const { id, conversationId } = await cluster.run([{ approve: { title: 'ok?' } }], { suspend: true });
    await cluster.action(id);
    await expect.poll(() => ids({ conversationId, state: 'awaiting_approval' }), SOON).toEqual([id]);
    release();
    await worker.shutdown({ drainMs: 0 });
    const { execution } = await client.startExecution({ conversationId, providerId: 'scripted', input: 'unseen' });
    await expect.poll(() => ids({ conversationId }), SOON).toEqual([id, execution.id].sort());
    const [queued] = await list({ conversationId, state: 'queued' });
    expect(queued).toMatchObject({ id: execution.id, state: 'queued', providerId: 'scripted', pendingActions: [] });
    const [waits] = await list({ conversationId, state: 'awaiting_approval' });
    expect(waits?.pendingActions).toMatchObject([{ title: 'ok?' }]);
  });
});
