/** A journal entry that comes too late is told so: whoever relies on its being durable does not go on. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider } from '../../providers/provider.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';

/** By execution: what came of each `record`, in order. */
const outcomes = new Map<string, string[]>();

/** Records once in time, once in the very moment of the abort, and once after it. */
function recorder(): Provider<Record<string, never>> {
  return {
    manifest: {
      id: 'recorder',
      name: 'Recorder',
      version: '1',
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['embedded'],
      capabilities: { 'execution.cancel': 'native' },
    },
    config: z.strictObject({}),
    recovery: 'journal',
    async run(ctx) {
      const told: string[] = [];
      outcomes.set(ctx.execution.id, told);
      const record = async (entry: string): Promise<void> => {
        await ctx.record(entry).then(
          () => told.push(`${entry}: durable`),
          (error: Error) => told.push(`${entry}: ${error.name}`),
        );
      };
      await record('in time');
      await ctx.emit('output.text.delta', { text: 'ready' });
      const atAbort = new Promise<void>((resolve) =>
        ctx.signal.addEventListener('abort', () => void record('at the abort').then(resolve), { once: true }),
      );
      await atAbort;
      await record('after it');
      return {};
    },
  };
}

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker({ providers: [recorder()], pool: PATIENT_POOL });
});

afterAll(async () => {
  await cluster.stopCompared();
});

it.each(['cancel', 'timeout'] as const)('record rejects once the run is stopped by a %s', async (by) => {
  const timeout = by === 'timeout' ? { timeoutSeconds: 3 } : {};
  const { id } = await cluster.start({ providerId: 'recorder', config: {}, ...timeout });
  if (by === 'cancel') {
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    await cluster.client.cancel(id);
  }
  const execution = await cluster.client.waitForTerminal(id, { timeoutMs: 50_000 });
  expect(execution.state).toBe(by === 'cancel' ? 'cancelled' : 'failed');
  expect(outcomes.get(id)).toEqual(['in time: durable', 'at the abort: AbortError', 'after it: AbortError']);
  expect((await cluster.state(id)).journal.count).toBe(1);
  await expect
    .poll(async () => (await cluster.handle(id).describe()).status.name, { timeout: 30_000 })
    .not.toBe('RUNNING');
});
