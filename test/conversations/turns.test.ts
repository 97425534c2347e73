import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Execution } from '../../protocol/execution.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { Cluster, types } from '../support/cluster.js';
import { turnProvider } from '../support/turn-provider.js';

let cluster: Cluster;
const native = turnProvider('native', 'native');
const emulated = turnProvider('emulated', 'emulated');

beforeAll(async () => {
  cluster = await Cluster.start();
  // A turn that was recovered because the machine was busy would count twice.
  const pool = { heartbeatTimeoutMs: 30_000, leaseMs: 15_000, stopGraceMs: 5_000 };
  await cluster.worker({ providers: [native.provider, emulated.provider, scriptedProvider()], pool });
});

afterAll(async () => {
  await cluster.stopCompared();
});

async function conversation(): Promise<string> {
  return (await cluster.client.createConversation()).id;
}

async function ended(executions: readonly { id: string }[]): Promise<Execution[]> {
  return await Promise.all(executions.map(({ id }) => cluster.client.waitForTerminal(id, { timeoutMs: 50_000 })));
}

describe('turns of one conversation', () => {
  it('run one after another in the order in which they were accepted, each with the session of the one before', async () => {
    const conversationId = await conversation();
    const started: Execution[] = [];
    for (let i = 0; i < 5; i++)
      started.push(await cluster.start({ providerId: 'native', conversationId, config: { waitMs: 50 } }));
    const results = await ended(started);
    expect(results.map((each) => each.finalOutput)).toEqual(['turn 1', 'turn 2', 'turn 3', 'turn 4', 'turn 5']);
    const order = native.ran.filter((id) => started.some((each) => each.id === id));
    expect(order).toEqual(started.map((each) => each.id));
    expect(native.peak.get(conversationId)).toBe(1);
  });

  it('give an emulated provider what was said before, oldest first', async () => {
    const conversationId = await conversation();
    const first = await cluster.start({ providerId: 'emulated', conversationId });
    await ended([first]);
    const second = await cluster.start({ providerId: 'emulated', conversationId });
    await ended([second]);
    const third = await cluster.start({ providerId: 'emulated', conversationId });
    const text = (await cluster.log(third.id)).find((event) => event.type === 'output.text.delta');
    expect(text?.data).toEqual({ text: 'turn 3 after [turn 1|turn 2]' });
  });

  it('of a provider without continuity run side by side', async () => {
    const conversationId = await conversation();
    const slow = await cluster.run([{ hang: true }], { conversationId });
    const quick = await cluster.run([{ say: 'x' }], { conversationId });
    expect((await ended([quick]))[0]?.state).toBe('succeeded');
    await cluster.client.cancel(slow.id);
    await ended([slow]);
  });

  it('wait while the holder is suspended, and a waiting one can be cancelled: not_running, the rest in order', async () => {
    const conversationId = await conversation();
    const holder = await cluster.start({ providerId: 'native', conversationId, config: { approve: true } });
    const { id: actionId } = await cluster.action(holder.id);
    const waiting = await cluster.start({ providerId: 'native', conversationId });
    const last = await cluster.start({ providerId: 'native', conversationId });
    expect((await cluster.client.getExecution(waiting.id)).state).toBe('queued');
    await cluster.client.cancel(waiting.id);
    const log = await cluster.log(waiting.id);
    expect(types(log)).toEqual(['run.queued', 'run.cancelled']);
    expect(log.at(-1)?.data).toEqual({ confirmation: 'not_running' });
    expect((await cluster.client.getExecution(last.id)).state).toBe('queued');
    await cluster.client.respond(holder.id, actionId, { approved: true });
    const results = await ended([holder, last]);
    expect(results.map((each) => each.finalOutput)).toEqual(['turn 1', 'turn 2']);
  });

  it('go on after a holder that was terminated through the server', async () => {
    const conversationId = await conversation();
    const holder = await cluster.start({ providerId: 'native', conversationId, config: { waitMs: 60_000 } });
    await cluster.seen(holder.id, (event) => event.type === 'run.started');
    const next = await cluster.start({ providerId: 'native', conversationId });
    await cluster.handle(holder.id).terminate();
    expect((await ended([next]))[0]?.state).toBe('succeeded');
  });

  it('keep their order in 8 conversations of 4 turns at once', async () => {
    const conversations = await Promise.all(Array.from({ length: 8 }, conversation));
    const started = await Promise.all(
      conversations.map(async (conversationId) => {
        const turns = [];
        for (let i = 0; i < 4; i++) turns.push(await cluster.start({ providerId: 'native', conversationId }));
        return turns;
      }),
    );
    for (const turns of started) {
      const results = await ended(turns);
      expect(results.map((each) => each.finalOutput)).toEqual(['turn 1', 'turn 2', 'turn 3', 'turn 4']);
    }
    for (const id of conversations) expect(native.peak.get(id)).toBe(1);
  });
});

describe('onBusy', () => {
  it('reject: of racing starts one runs, the others get INVALID_STATE and nothing is started; a retry finds its original', async () => {
    const conversationId = await conversation();
    const request = {
      providerId: 'native',
      conversationId,
      input: 'go',
      onBusy: 'reject',
      config: { waitMs: 500 },
    } as const;
    const tries = await Promise.allSettled(
      ['a', 'b', 'c', 'd'].map((idempotencyKey) => cluster.client.startExecution({ ...request, idempotencyKey })),
    );
    const won = tries.flatMap((each, i) => (each.status === 'fulfilled' ? [{ i, ...each.value }] : []));
    expect(won).toHaveLength(1);
    for (const each of tries)
      if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'INVALID_STATE' });
    const idempotencyKey = ['a', 'b', 'c', 'd'][won[0]!.i]!;
    const again = await cluster.client.startExecution({ ...request, idempotencyKey });
    expect(again).toMatchObject({ replayed: true, execution: { id: won[0]!.execution.id } });
    await ended([won[0]!.execution]);
  });

  it('interrupt: cancels what runs and goes next, before those that wait; a retry does not interrupt itself', async () => {
    const conversationId = await conversation();
    const running = await cluster.start({ providerId: 'native', conversationId, config: { waitMs: 30_000 } });
    await cluster.seen(running.id, (event) => event.type === 'run.started');
    const waiting = await cluster.start({ providerId: 'native', conversationId });
    const request = {
      providerId: 'native',
      conversationId,
      input: 'go',
      onBusy: 'interrupt',
      idempotencyKey: 'k',
      config: { waitMs: 300 },
    } as const;
    const { execution } = await cluster.client.startExecution(request);
    expect((await cluster.client.startExecution(request)).replayed).toBe(true);
    const results = await ended([running, execution, waiting]);
    expect(results.map((each) => each.state)).toEqual(['cancelled', 'succeeded', 'succeeded']);
    const order = native.ran.filter((id) => [running.id, execution.id, waiting.id].includes(id));
    expect(order).toEqual([running.id, execution.id, waiting.id]);
  });

  it('interrupt: racing starts end each in one way, never run at once, and a retry of one is that one', async () => {
    const conversationId = await conversation();
    const running = await cluster.start({ providerId: 'native', conversationId, config: { waitMs: 30_000 } });
    await cluster.seen(running.id, (event) => event.type === 'run.started');
    const request = {
      providerId: 'native',
      conversationId,
      input: 'go',
      onBusy: 'interrupt',
      config: { waitMs: 200 },
    } as const;
    const start = (idempotencyKey: string) => cluster.client.startExecution({ ...request, idempotencyKey });
    const keys = ['a', 'b', 'c', 'd', 'a', 'b'];
    const started = await Promise.all(keys.map(start));
    const ids = started.map(({ execution }) => execution.id);
    expect(ids.slice(4)).toEqual(ids.slice(0, 2));
    expect(new Set(ids).size).toBe(4);
    const [held, ...racing] = await ended([running, ...ids.slice(0, 4).map((id) => ({ id }))]);
    expect(held?.state).toBe('cancelled');
    for (const { state } of racing) expect(['succeeded', 'cancelled']).toContain(state);
    const last = native.ran.findLast((id) => ids.includes(id));
    expect(racing.find(({ id }) => id === last)?.state).toBe('succeeded');
    expect(native.peak.get(conversationId)).toBe(1);
    const again = await start('c');
    expect(again).toMatchObject({ replayed: true, execution: { id: ids[2] } });
  });
});

describe('closing a conversation', () => {
  it('refuses later starts, cancels who waits, lets the running one go on, and keeps its list', async () => {
    const conversationId = await conversation();
    const running = await cluster.start({ providerId: 'native', conversationId, config: { waitMs: 1_500 } });
    await cluster.seen(running.id, (event) => event.type === 'run.started');
    const waiting = await cluster.start({ providerId: 'native', conversationId });
    await cluster.client.closeConversation(conversationId);
    await expect(cluster.start({ providerId: 'native', conversationId })).rejects.toMatchObject({
      code: 'INVALID_STATE',
    });
    await expect(cluster.run([{ say: 'x' }], { conversationId })).rejects.toMatchObject({ code: 'INVALID_STATE' });
    const results = await ended([running, waiting]);
    expect(results.map((each) => each.state)).toEqual(['succeeded', 'cancelled']);
    expect((await cluster.client.getConversation(conversationId)).id).toBe(conversationId);
    await cluster.client.closeConversation(conversationId);
    await expect
      .poll(async () => (await cluster.client.listExecutions({ conversationId })).executions.length, {
        timeout: 10_000,
      })
      .toBe(2);
  });
});

it('requiring continuity of a provider without it is refused before anything starts', async () => {
  const conversationId = await conversation();
  await expect(
    cluster.run([{ say: 'x' }], { conversationId, requiredCapabilities: ['conversation.continuity'] }),
  ).rejects.toMatchObject({ code: 'CAPABILITY_UNSUPPORTED' });
});
