/** Many conversations at once, long ones, and one that is cut off. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { HoldfastError } from '../../protocol/errors.js';
import type { Execution } from '../../protocol/execution.js';
import { MAX_TRANSCRIPT_BYTES } from '../../protocol/turns.js';
import type { ConversationStart } from '../../workflows/messages.js';
import { Cluster, PATIENT_POOL, types } from '../support/cluster.js';
import { turnProvider } from '../support/turn-provider.js';

vi.setConfig({ testTimeout: 600_000, hookTimeout: 120_000 });

let cluster: Cluster;
const native = turnProvider('native', 'native');

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker({ providers: [native.provider], pool: PATIENT_POOL });
});

afterAll(async () => {
  await cluster.stop();
});

async function conversation(): Promise<string> {
  return (await cluster.client.createConversation()).id;
}

/** As a caller does when the server is too busy to answer: the same request again, with its key. */
async function startSurely(conversationId: string, idempotencyKey: string): Promise<Execution> {
  for (let tries = 0; ; tries++)
    try {
      return await cluster.start({ providerId: 'native', conversationId, idempotencyKey });
    } catch (error) {
      if (!(error instanceof HoldfastError) || error.code !== 'RUNTIME_UNAVAILABLE' || tries > 20) throw error;
    }
}

it('100 conversations of 5 turns at once keep the order in each, and all succeed', async () => {
  const began = Date.now();
  const conversations = await Promise.all(Array.from({ length: 100 }, conversation));
  const started = await Promise.all(
    conversations.map(async (conversationId) => {
      const turns: Execution[] = [];
      for (let i = 0; i < 5; i++) turns.push(await startSurely(conversationId, `turn ${i}`));
      return turns;
    }),
  );
  for (const [i, turns] of started.entries()) {
    const results = await Promise.all(turns.map(({ id }) => cluster.client.waitForTerminal(id)));
    expect(results.map((each) => each.finalOutput)).toEqual(['turn 1', 'turn 2', 'turn 3', 'turn 4', 'turn 5']);
    const ids = turns.map(({ id }) => id);
    expect(native.ran.filter((id) => ids.includes(id))).toEqual(ids);
    expect(native.peak.get(conversations[i]!)).toBe(1);
  }
  console.log(`500 turns in ${((Date.now() - began) / 1000).toFixed(1)} s`);
});

/** Some generations of runs; `HOLDFAST_TURNS=10000` takes minutes, and shows the same. */
const TURNS = Number(process.env.HOLDFAST_TURNS ?? 3_000);

it(`a conversation of ${TURNS} turns stays small, and its next turn is quick`, async () => {
  const conversationId = await conversation();
  const handle = cluster.handle(conversationId);
  const BURST = 25;
  const began = Date.now();
  // As executions say it: there, and ended, with a turn of 4 KiB. What the conversation sends them reaches nobody.
  const send = async (i: number): Promise<void> => {
    const executionId = `exec_${i}`;
    const turn = { executionId, input: `question ${i}`, output: `${i} `.padEnd(4096, 'x') };
    await handle.signal('ready', { executionId, providerId: 'native' });
    await handle.signal('release', { executionId, providerId: 'native', session: 0, turn });
  };
  // As they come from executions: some at once, and the next ones after those. (The server takes at most 100 signals
  // beside one workflow task that is under way.)
  for (let i = 0; i < TURNS; i += BURST) {
    await Promise.all(Array.from({ length: BURST }, (_, j) => send(i + j)));
    while ((await handle.describe()).raw.pendingWorkflowTask) await delay(5);
  }
  console.log(`${TURNS} turns in ${((Date.now() - began) / 1000).toFixed(1)} s`);
  const asked = Date.now();
  const { id } = await cluster.start({ providerId: 'native', conversationId });
  expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('turn 1');
  console.log(`the next turn in ${Date.now() - asked} ms`);
  let runs = 0;
  for await (const _ of cluster.temporal.workflow.list({ query: `WorkflowId = 'default.${conversationId}'` }))
    runs += 1;
  expect(runs).toBeGreaterThanOrEqual(3);
  const described = await handle.describe();
  expect(described.historyLength).toBeLessThan(25_000);
  const { events } = await handle.fetchHistory();
  const [payload] = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
  const start = JSON.parse(Buffer.from(payload!.data!).toString()) as ConversationStart;
  expect(payload!.data!.length).toBeLessThan(MAX_TRANSCRIPT_BYTES + 64 * 1024);
  expect(start.turns!.turns).toBeGreaterThan(1000);
});

it('what waits in a conversation that was terminated ends by itself, as INVALID_STATE', async () => {
  const conversationId = await conversation();
  const holder = await cluster.start({ providerId: 'native', conversationId, config: { approve: true } });
  const { id: actionId } = await cluster.action(holder.id);
  const waiting = await cluster.start({ providerId: 'native', conversationId });
  await cluster.handle(conversationId).terminate('by mistake');
  const failed = await cluster.client.waitForTerminal(waiting.id, { timeoutMs: 120_000 });
  expect(failed).toMatchObject({ state: 'failed', error: { code: 'INVALID_STATE' } });
  expect(types(await cluster.log(waiting.id))).toEqual(['run.queued', 'run.failed']);
  // The one that has its turn goes on to its end.
  await cluster.client.respond(holder.id, actionId, { approved: true });
  expect((await cluster.client.waitForTerminal(holder.id)).state).toBe('succeeded');
});
