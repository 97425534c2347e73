/** A journaled execution that rolled over and suspended, and then lost its older runs to retention. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { decoder } from '../../log/decode.js';
import { HistoryReader } from '../../log/history.js';
import { LogReader } from '../../log/reader.js';
import type { Json } from '../../protocol/json.js';
import { KIB } from '../../protocol/limits.js';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider } from '../../providers/provider.js';
import { Cluster, PATIENT_POOL, types } from '../support/cluster.js';

const BATCHES = 4;
const ENTRIES = 4;

interface Config {
  /** Of each journal entry. */
  readonly bytes: number;
}

/** Every attempt that was started: what it was given to go on from. */
const attempts = new Map<string, (readonly Json[])[]>();

/** Records between its texts, suspends, and goes on with the answer. */
function keeper(): Provider<Config> {
  return {
    manifest: {
      id: 'keeper',
      name: 'Keeper',
      version: '1',
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['embedded'],
      capabilities: { 'action.approval': 'native', 'execution.cancel': 'native' },
    },
    config: z.strictObject({ bytes: z.int() }),
    recovery: 'journal',
    async run(ctx) {
      attempts.set(ctx.execution.id, [...(attempts.get(ctx.execution.id) ?? []), ctx.resume?.journal ?? []]);
      if (ctx.resume !== undefined) {
        await ctx.emit('output.text.delta', { text: ctx.resume.response?.approved ? 'yes' : 'no' });
        return {};
      }
      for (let entry = 0; entry < ENTRIES; entry++) {
        await ctx.emit('output.text.delta', { text: `${entry} ` });
        // Each is a batch of its own, so that there are several runs of them.
        await ctx.record(String(entry).padStart(ctx.config.bytes, '.'));
        await ctx.record('small');
        // Two entries are four batches: the run is continued as new before anything more is said.
        if (entry % 2 === 1) await rolledOver(ctx.execution.id, (entry + 1) / 2);
      }
      return await ctx.suspend({ kind: 'approval', title: 'go on?' });
    },
  };
}

let cluster: Cluster;
let reader: LogReader;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker({ providers: [keeper()], pool: PATIENT_POOL, rollover: { batches: BATCHES } });
  reader = new LogReader(new HistoryReader(cluster.temporal, cluster.server.namespace, decoder()));
});

afterAll(() => cluster.stop());

async function rolledOver(id: string, times: number): Promise<void> {
  const rollovers = async () => (await reader.foldRun(`default.${id}`)).fold.segments.length;
  await expect.poll(rollovers, { timeout: 50_000 }).toBeGreaterThanOrEqual(times);
}

const journal = (bytes: number): Json[] =>
  Array.from({ length: ENTRIES }, (_, entry) => [String(entry).padStart(bytes, '.'), 'small']).flat();

/** One that waits for its answer, with all of its runs but the last deleted. */
async function withoutItsPast(bytes: number): Promise<{ id: string; actionId: string; oldest: number }> {
  const { id } = await cluster.start({ providerId: 'keeper', config: { bytes } });
  const { id: actionId } = await cluster.action(id);
  const workflowId = `default.${id}`;
  const pending = async () => (await cluster.handle(id).describe()).raw.pendingActivities?.length ?? 0;
  await expect.poll(pending, { timeout: 30_000 }).toBe(0);
  const { fold } = await reader.foldRun(workflowId);
  expect(fold.segments.length).toBeGreaterThanOrEqual(2);
  for (const { runId } of fold.segments)
    await cluster.temporal.workflowService.deleteWorkflowExecution({
      namespace: cluster.server.namespace,
      workflowExecution: { workflowId, runId },
    });
  const oldest = fold.segments.at(-1)!.last + 1;
  const read = () =>
    cluster.client.listEvents(id).then(
      () => undefined,
      (error: { details?: object }) => error.details,
    );
  // Deleted one by one, in whatever order.
  await expect.poll(read, { timeout: 30_000 }).toEqual({ oldestSequence: oldest });
  return { id, actionId, oldest };
}

describe('with its older runs past retention', () => {
  it('it resumes with its whole journal, when that fits what travels; what is left of the log reads on', async () => {
    const { id, actionId, oldest } = await withoutItsPast(1 * KIB);
    await expect(cluster.log(id)).rejects.toMatchObject({
      code: 'EVENTS_EXPIRED',
      details: { oldestSequence: oldest },
    });
    await expect(cluster.log(id, oldest - 2)).rejects.toMatchObject({ code: 'EVENTS_EXPIRED' });
    await cluster.client.respond(id, actionId, { approved: true });
    const execution = await cluster.client.waitForTerminal(id, { timeoutMs: 50_000 });
    expect(execution).toMatchObject({ state: 'succeeded', finalOutput: '0 1 2 3 yes' });
    expect(attempts.get(id)).toEqual([[], journal(1 * KIB)]);
    const rest = await cluster.log(id, oldest - 1);
    expect(rest[0]?.sequence).toBe(oldest);
    expect(rest.at(-1)?.type).toBe('run.completed');
  });

  it('it fails as EVENTS_EXPIRED before a provider starts, when its journal is too big to travel', async () => {
    const { id, actionId, oldest } = await withoutItsPast(100 * KIB);
    await cluster.client.respond(id, actionId, { approved: true });
    const execution = await cluster.client.waitForTerminal(id, { timeoutMs: 50_000 });
    expect(execution).toMatchObject({ state: 'failed', error: { code: 'EVENTS_EXPIRED' }, pendingActions: [] });
    expect(attempts.get(id)).toHaveLength(1);
    const rest = await cluster.log(id, oldest - 1);
    expect(types(rest).slice(-2)).toEqual(['action.responded', 'run.failed']);
  });
});
