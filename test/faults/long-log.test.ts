/** A log of more than 30,000 events over many runs: whole for who reads along, and from every cursor afterwards. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { z } from 'zod';
import { decoder } from '../../log/decode.js';
import { HistoryReader } from '../../log/history.js';
import { LogReader } from '../../log/reader.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider } from '../../providers/provider.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { Cluster, isActionRequired, PATIENT_POOL, types } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';

const FLOOD = 5_000;
const FLOODS = 6;
/** Long enough that the bytes of a run, also of one that overruns while it is handed over, come to six runs and more. */
const BYTES = 250;
const ROLLOVER = { batches: 40, bytes: 192 * 1024 };

/** Floods, asks half-way and goes on talking, one delta a batch, until it is answered: it rolls over while it asks. */
function floodingProvider(): Provider<Record<string, never>> {
  return {
    manifest: {
      id: 'flooding',
      name: 'Flooding',
      version: '1',
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['embedded'],
      capabilities: { 'action.approval': 'native', 'execution.cancel': 'native' },
    },
    config: z.strictObject({}),
    async run(ctx) {
      const say = (text: string) => ctx.emit('output.text.delta', { text });
      for (let flood = 0; flood < FLOODS; flood++) {
        if (flood === FLOODS / 2) {
          let answered = false;
          const answer = ctx.requestAction({ kind: 'approval', title: 'go on?' }).finally(() => {
            answered = true;
          });
          while (!answered && !ctx.signal.aborted) {
            await say('?');
            await delay(30);
          }
          await say((await answer).approved ? 'approved' : 'rejected');
        }
        for (let i = 0; i < FLOOD && !ctx.signal.aborted; i++)
          await say(String(flood * FLOOD + i).padStart(BYTES, '.'));
      }
      return {};
    },
  };
}

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker({
    providers: [scriptedProvider(), floodingProvider()],
    pool: PATIENT_POOL,
    rollover: ROLLOVER,
  });
});

afterAll(async () => {
  await cluster.stopCompared();
});

async function runId(executionId: string): Promise<string> {
  return (await cluster.handle(executionId).describe()).runId;
}

/** Reads it all from `after` with a client that has never seen it, in one go or by pages. */
async function freshly(executionId: string, after: number, by: 'stream' | 'pages'): Promise<HoldfastEvent[]> {
  const client = await cluster.anotherClient();
  const events: HoldfastEvent[] = [];
  if (by === 'stream') {
    for await (const event of client.events(executionId, { after })) events.push(event);
    return events;
  }
  for (let cursor = after; ; ) {
    const page = await client.listEvents(executionId, { after: cursor, limit: 10_000 });
    if (page.events.length === 0) return events;
    events.push(...page.events);
    cursor = page.nextCursor;
  }
}

/** Same as `toEqual`, but its failure does not print 30,000 events. */
function expectSame(read: readonly HoldfastEvent[], expected: readonly HoldfastEvent[]): void {
  expect(read).toHaveLength(expected.length);
  const at = expected.findIndex((event, i) => JSON.stringify(event) !== JSON.stringify(read[i]));
  expect([read[at], at]).toEqual([expected[at], -1]);
}

it('30,000 events over many rollovers: contiguous for a live reader, the same from every cursor', async () => {
  const { id } = await cluster.start({ providerId: 'flooding', config: {} });
  const reading = cluster.log(id);
  reading.catch(() => undefined);

  const { id: actionId } = await cluster.action(id);
  const askedIn = await runId(id);
  await expect.poll(() => runId(id), { timeout: 120_000, interval: 20 }).not.toBe(askedIn);
  // The run is another one since this moment.
  await cluster.client.respond(id, actionId, { approved: true });

  const live = await reading;
  expectWhole(live);
  expect(live.length).toBeGreaterThan(FLOOD * FLOODS);
  expect(live.at(-1)?.type).toBe('run.completed');
  expect(live.filter(isActionRequired).map(({ data }) => data.id)).toEqual([actionId]);
  expect(types(live).filter((type) => type === 'action.responded')).toHaveLength(1);
  const said = live.flatMap((event) => (event.type === 'output.text.delta' ? [event.data.text] : []));
  const numbers = said.filter((text) => text.length === BYTES).map((text) => Number(text.replace(/^\.+/, '')));
  expect(numbers).toHaveLength(FLOOD * FLOODS);
  expect(numbers.findIndex((number, i) => number !== i)).toBe(-1);
  expect(said.filter((text) => text === 'approved')).toHaveLength(1);

  const last = live.length;
  expect((await cluster.state(id)).sequence).toBe(last);
  for (const after of [0, 1, 9_999, 20_000, last - 1]) {
    const startedAt = performance.now();
    expectSame(await freshly(id, after, 'stream'), live.slice(after));
    if (after === 0) console.log(`${last} events read in ${Math.round(performance.now() - startedAt)} ms`);
    expectSame(await freshly(id, after, 'pages'), live.slice(after));
  }

  const reader = new LogReader(new HistoryReader(cluster.temporal, cluster.server.namespace, decoder()));
  const rollovers = (await reader.foldRun(`default.${id}`)).fold.segments.length;
  console.log(`${rollovers} rollovers`);
  expect(rollovers).toBeGreaterThanOrEqual(5);
});
