/** Many readers, and slow ones: one upstream read for all, and memory that stays where it is. */
import type { Client } from '@temporalio/client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HoldfastClient } from '../../client/client.js';
import { Cluster, QUICK_POOL } from '../support/cluster.js';
import { WorkerProcess } from '../support/kill.js';
import { GatewayProcess } from './gateway-child.js';
import { Harness } from './harness.js';
import { RawStream, upTo } from './raw.js';

let cluster: Cluster;
let worker: WorkerProcess;
let gateway: GatewayProcess | undefined;

beforeAll(async () => {
  cluster = await Cluster.start();
  // In a process of its own, so that what is measured is the gateway.
  worker = await WorkerProcess.start({ address: cluster.server.address, pool: QUICK_POOL });
});

afterAll(async () => {
  await gateway?.kill();
  await worker.kill();
  await cluster.stop();
});

const path = (id: string): string => `/v1/executions/${id}/events`;

/** Counts how often a client asks the server for history. The calls themselves are made as ever. */
function countReads(client: HoldfastClient): () => number {
  const { workflowService } = (client as unknown as { backend: { temporal: Client } }).backend.temporal;
  const original = workflowService.getWorkflowExecutionHistory.bind(workflowService);
  let reads = 0;
  workflowService.getWorkflowExecutionHistory = ((request: never) => {
    reads += 1;
    return original(request);
  }) as never;
  return () => reads;
}

describe('500 subscribers of one execution', () => {
  it('cost one upstream read, wherever they begin', async () => {
    const steps = [{ ask: { title: 'go?' } }, { say: 'x'.repeat(20), chunk: 1, everyMs: 20 }];
    const reads: number[] = [];
    for (const readers of [1, 500]) {
      const client = await cluster.anotherClient();
      const gateway = await Harness.start({ client });
      const { id } = await gateway.run(cluster, steps);
      const action = await gateway.action(id);
      const first = await RawStream.open(gateway.url, path(id));
      await first.until(() => first.parser.frames.length >= 3);
      const count = countReads(client);
      const others = await Promise.all(
        Array.from({ length: readers - 1 }, (_, index) =>
          RawStream.open(gateway.url, path(id), index % 2 === 0 ? {} : { headers: { 'Last-Event-ID': '2' } }),
        ),
      );
      for (const stream of others) await stream.until(() => stream.parser.frames.length > 0);
      expect(count()).toBeLessThanOrEqual(1);
      expect(client.load).toMatchObject({ followed: 1, polls: 1 });
      await client.respond(id, action.id, { value: 1 });
      await Promise.all([first, ...others].map((stream) => stream.finish(30_000)));
      reads.push(count());
      for (const [index, stream] of others.entries())
        expect(stream.sequences).toEqual(upTo(first.sequences.length, index % 2 === 0 ? 1 : 3));
      await gateway.gateway.close(0);
    }
    const [one = 0, all = 0] = reads;
    // Each poll brings what has come by then, so their number varies; that of the readers does not enter.
    expect(all).toBeLessThanOrEqual(one + 25);
  });
});

describe('a slow reader', () => {
  it('of a big log costs no memory, gets a clean end, and goes on with its cursor', async () => {
    gateway = await GatewayProcess.start({ address: cluster.server.address, stallMs: 3_000 });
    const { url } = gateway;
    const { id } = await cluster.run([{ flood: { events: 1_000, bytes: 5_000 } }]);
    const quick = await (await RawStream.open(url, path(id))).finish(60_000);
    const last = quick.sequences.length;
    expect(quick.sequences).toEqual(upTo(last));
    const before = gateway.memory;
    const slow = await Promise.all(Array.from({ length: 20 }, () => RawStream.open(url, path(id))));
    for (const stream of slow) {
      await stream.until(() => stream.parser.frames.length > 0);
      stream.socket.pause();
    }
    let most = before;
    for (let looks = 0; looks < 12; looks++) {
      await new Promise((resolve) => setTimeout(resolve, 250));
      most = Math.max(most, gateway.memory);
    }
    // All of it for all of them would be 100 MB.
    expect(most - before).toBeLessThan(60);
    // It has sent them all away.
    await expect.poll(() => gateway?.streams(), { timeout: 60_000, interval: 200 }).toBe(0);
    for (const stream of slow) stream.socket.resume();
    for (const stream of slow) await stream.finish(60_000);
    for (const stream of slow.slice(0, 3)) {
      expect(stream.sequences.length).toBeLessThan(last);
      expect(stream.events.map(({ type }) => type)).not.toContain('run.completed');
      expect(stream.parser.retries).toHaveLength(2);
      const headers = { 'Last-Event-ID': String(stream.sequences.length) };
      const rest = await (await RawStream.open(url, path(id), { headers })).finish(60_000);
      expect([...stream.sequences, ...rest.sequences]).toEqual(upTo(last));
    }
  }, 120_000);
});
