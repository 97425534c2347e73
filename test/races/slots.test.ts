/** More executions than slots: waiting in a queue is no error, and never more providers live than there are slots. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider } from '../../providers/provider.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';
import { QUEUED } from '../support/scale.js';

/** The machine may be busy; what is measured here is order, never time. */
vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

const SLOTS = 2;

const configSchema = z.strictObject({ deltas: z.int().default(4), deafMs: z.int().default(0) });

/** Counts how many of its runs are alive at once. With `deafMs` it ignores its abort for so long. */
function countingProvider() {
  const count = { live: 0, peak: 0, runs: 0 };
  const provider: Provider<z.infer<typeof configSchema>> = {
    manifest: {
      id: 'counting',
      name: 'Counting',
      version: '1',
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['embedded'],
      capabilities: { 'execution.cancel': 'native' },
    },
    config: configSchema,
    async run(ctx) {
      count.runs += 1;
      count.live += 1;
      count.peak = Math.max(count.peak, count.live);
      try {
        for (let i = 0; i < ctx.config.deltas; i++) {
          await ctx.emit('output.text.delta', { text: `${i} ` });
          await delay(15);
        }
        await delay(ctx.config.deafMs);
        return {};
      } finally {
        count.live -= 1;
      }
    },
  };
  return { count, provider };
}

let cluster: Cluster | undefined;

afterEach(async () => {
  const compared = await cluster?.compare();
  await cluster?.stop();
  cluster = undefined;
  expect(compared?.different).toEqual([]);
});

async function withSlots(rollover?: { batches: number }) {
  const counting = countingProvider();
  const running = await Cluster.start();
  cluster = running;
  const worker = () =>
    running.worker({
      providers: [counting.provider],
      slots: { counting: SLOTS },
      pool: { ...PATIENT_POOL, stopGraceMs: 300 },
      ...(rollover === undefined ? {} : { rollover }),
    });
  return { cluster: running, count: counting.count, worker };
}

describe(`${QUEUED} executions on a worker with ${SLOTS} slots`, () => {
  it.each([undefined, { batches: 3 }])(
    'all succeed, never more than 2 live at once (rollover: %o)',
    async (rollover) => {
      const { cluster, count, worker } = await withSlots(rollover);
      await worker();
      const { id: conversationId } = await cluster.client.createConversation();
      const ids = await Promise.all(
        Array.from({ length: QUEUED }, async () => {
          const { id } = await cluster.start({ providerId: 'counting', conversationId, config: {} });
          return id;
        }),
      );
      const ends = await Promise.all(ids.map((id) => cluster.client.waitForTerminal(id, { timeoutMs: 200_000 })));
      expect(ends.map(({ state }) => state)).toEqual(ids.map(() => 'succeeded'));
      expect(count.peak).toBe(SLOTS);
      expect(count.runs).toBe(QUEUED);
      for (const id of ids) expectWhole(await cluster.log(id));
    },
  );
});

describe('a provider that ignores its abort', () => {
  it('holds its slot until its code has really returned, also after its execution is over', async () => {
    const { cluster, count, worker } = await withSlots();
    await worker();
    const deaf = await Promise.all(
      Array.from({ length: SLOTS }, () =>
        cluster.start({ providerId: 'counting', config: { deltas: 1, deafMs: 4_000 } }),
      ),
    );
    for (const { id } of deaf) await cluster.seen(id, (event) => event.type === 'output.text.delta');
    for (const { id } of deaf) {
      await cluster.client.cancel(id);
      expect(await cluster.client.waitForTerminal(id, { timeoutMs: 10_000 })).toMatchObject({ state: 'cancelled' });
      expect((await cluster.log(id)).at(-1)?.data).toEqual({ confirmation: 'abandoned' });
    }
    const late = await cluster.start({ providerId: 'counting', config: {} });
    expect(count.live).toBe(SLOTS);
    expect((await cluster.client.waitForTerminal(late.id, { timeoutMs: 120_000 })).state).toBe('succeeded');
    expect(count.peak).toBe(SLOTS);
  });
});

describe('with no worker at all', () => {
  it('executions wait, visibly queued, and run when one comes', async () => {
    const { cluster, count, worker } = await withSlots();
    await (await worker()).shutdown();
    const { id: conversationId } = await cluster.client.createConversation();
    const started = await Promise.all(
      Array.from({ length: 10 }, () => cluster.start({ providerId: 'counting', conversationId, config: {} })),
    );
    expect(started.map(({ state }) => state)).toEqual(started.map(() => 'queued'));
    for (const { id } of started) {
      expect((await cluster.client.getExecution(id)).state).toBe('queued');
      expect((await cluster.client.listEvents(id)).events.map(({ type }) => type)).toEqual(['run.queued']);
    }
    const listed = async () =>
      (await cluster.client.listExecutions({ conversationId, state: 'queued' })).executions.length;
    await expect.poll(listed, { timeout: 20_000 }).toBe(10);
    expect(count.runs).toBe(0);
    await worker();
    const ends = await Promise.all(started.map(({ id }) => cluster.client.waitForTerminal(id, { timeoutMs: 120_000 })));
    expect(ends.map(({ state }) => state)).toEqual(ends.map(() => 'succeeded'));
  });
});
