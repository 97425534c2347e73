import { Client } from '@temporalio/client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { HoldfastClient } from '../../client/client.js';
import { startTimeSkippingServer, type TimeSkippingServer } from '../../dev/time-skipping.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { installRuntime } from '../../worker/runtime.js';
import { createWorker, type HoldfastWorker } from '../../worker/worker.js';

const DAY_SECONDS = 24 * 3600;

let server: TimeSkippingServer;
let client: HoldfastClient;
let worker: HoldfastWorker;

beforeAll(async () => {
  installRuntime();
  server = await startTimeSkippingServer();
  worker = await createWorker({
    address: server.address,
    namespace: server.namespace,
    providers: [scriptedProvider()],
    handleSignals: false,
    log: () => undefined,
  });
  client = await HoldfastClient.connect({ address: server.address, namespace: server.namespace });
});

afterAll(async () => {
  await client?.close();
  await worker?.shutdown({ drainMs: 0 });
  await server?.stop();
});

async function suspended(action: object, conversationId: string): Promise<string> {
  const { execution } = await client.startExecution({
    conversationId,
    providerId: 'scripted',
    input: 'go',
    config: { suspend: true, steps: [{ approve: { title: 'ok?', ...action } }] } as never,
  });
  const { id } = execution;
  await expect.poll(async () => (await client.getExecution(id)).state, { timeout: 20_000 }).toBe('awaiting_approval');
  return id;
}

it('a suspended approval expires when its days are over, and not before', async () => {
  const { id: conversationId } = await client.createConversation();
  const id = await suspended({ timeoutSeconds: 2 * DAY_SECONDS }, conversationId);
  await server.skip(1.5 * DAY_SECONDS * 1000);
  expect((await client.getExecution(id)).state).toBe('awaiting_approval');
  await server.skip(0.6 * DAY_SECONDS * 1000);
  await expect.poll(async () => (await client.getExecution(id)).state, { timeout: 20_000 }).toBe('succeeded');
  expect((await client.getExecution(id)).finalOutput).toBe('expired');
});

it('a conversation closes itself after its idle days, counted from the last start of any execution', async () => {
  const { id: conversationId } = await client.createConversation({ closeAfterIdleDays: 2 });
  await server.skip(1.5 * DAY_SECONDS * 1000);
  // Of a provider that takes no turns.
  await suspended({ timeoutSeconds: 30 * DAY_SECONDS }, conversationId);
  await server.skip(1.5 * DAY_SECONDS * 1000);
  expect((await client.getConversation(conversationId)).closed).toBe(false);
  await server.skip(1 * DAY_SECONDS * 1000);
  await expect.poll(async () => (await client.getConversation(conversationId)).closed, { timeout: 20_000 }).toBe(true);
});

it('a suspended approval waits three days, holding nothing, and goes on with the answer', async () => {
  const { id: conversationId } = await client.createConversation();
  const { execution } = await client.startExecution({
    conversationId,
    providerId: 'scripted',
    input: 'go',
    config: { suspend: true, steps: [{ say: 'before ' }, { approve: { title: 'ok?' } }, { say: ' after' }] },
  });
  const { id } = execution;
  await expect.poll(async () => (await client.getExecution(id)).state, { timeout: 20_000 }).toBe('awaiting_approval');
  const temporal = new Client({ connection: server.env.connection, namespace: server.namespace });
  const pending = async () =>
    (await temporal.workflow.getHandle(`default.${id}`).describe()).raw.pendingActivities?.length ?? 0;
  await expect.poll(pending, { timeout: 10_000 }).toBe(0);
  await server.skip(3 * 24 * 3600 * 1000);
  const waiting = await client.getExecution(id);
  expect(waiting.state).toBe('awaiting_approval');
  const [action] = waiting.pendingActions;
  // As an operator answers: this server's history long poll brings no events, so nothing can be followed here.
  const answer = { responseId: 'mine', actionId: action!.id, response: { approved: true } };
  await temporal.workflow.getHandle(`default.${id}`).signal('respond', answer);
  await expect.poll(async () => (await client.getExecution(id)).state, { timeout: 20_000 }).toBe('succeeded');
  const done = await client.getExecution(id);
  expect(done.finalOutput).toBe('before approved after');
  const days = (Date.parse(done.endedAt!) - Date.parse(done.createdAt)) / 86_400_000;
  expect(days).toBeGreaterThanOrEqual(3);
});
