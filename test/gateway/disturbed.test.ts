/** Streams while workers die, runs roll over and the server restarts beneath them: still exactly 1 … N. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DevServer, startDevServer } from '../../dev/server.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import { isTerminalEvent } from '../../protocol/event.js';
import { Cluster, QUICK_POOL } from '../support/cluster.js';
import { WorkerProcess } from '../support/kill.js';
import { Harness } from './harness.js';
import { RawStream, upTo } from './raw.js';

let folder: string;
let cluster: Cluster;
let gateway: Harness;
let worker: WorkerProcess;
let restarted: DevServer | undefined;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'holdfast-gateway-'));
  cluster = await Cluster.start({ dbFile: join(folder, 'state.db') });
  worker = await startWorker();
  gateway = await Harness.start({ client: cluster.client, heartbeatMs: 500 });
});

afterAll(async () => {
  await gateway.gateway.close(0);
  await worker.kill();
  await cluster.stop();
  await restarted?.stop();
  rmSync(folder, { recursive: true, force: true });
});

function startWorker(): Promise<WorkerProcess> {
  return WorkerProcess.start({ address: cluster.server.address, pool: QUICK_POOL, rollover: { batches: 8 } });
}

/** Reads to the end as a client would: when a stream ends or refuses, it comes back with its last id. */
class Reader {
  readonly got: HoldfastEvent[] = [];
  connections = 0;
  readonly done: Promise<void>;

  /** `eager`: it also cuts the stream itself after so many events. */
  constructor(
    private readonly id: string,
    private readonly eager = Number.POSITIVE_INFINITY,
  ) {
    this.done = this.read();
  }

  private async read(): Promise<void> {
    const last = (): HoldfastEvent | undefined => this.got.at(-1);
    while (last() === undefined || !isTerminalEvent(last() as HoldfastEvent)) {
      this.connections += 1;
      const headers = last() === undefined ? {} : { 'Last-Event-ID': String(last()?.sequence) };
      const stream = await RawStream.open(gateway.url, `/v1/executions/${this.id}/events`, { headers });
      const enough = (): boolean => stream.complete || stream.parser.frames.length >= this.eager;
      await stream.until(enough, 150_000);
      stream.socket.destroy();
      this.got.push(...stream.events);
      if (stream.status >= 500) await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

async function expectWhole(id: string, readers: readonly Reader[]): Promise<void> {
  await Promise.all(readers.map(({ done }) => done));
  const log = await cluster.log(id);
  expect(log.map(({ sequence }) => sequence)).toEqual(upTo(log.length));
  for (const { got } of readers) expect(got).toEqual(log);
}

/** With no server there, nothing hangs and nothing is claimed that is not known. */
async function expectUnavailable(id: string, actionId: string): Promise<void> {
  const conversation = { conversationId: 'conv_x', providerId: 'scripted', input: 'x' };
  const answers = await Promise.all([
    gateway.post(`/v1/executions/${id}/actions/${actionId}:respond`, { approved: true }, { 'idempotency-key': 'mine' }),
    gateway.post(`/v1/executions/${id}/actions/${actionId}:respond`, { approved: true }),
    gateway.post('/v1/executions', conversation),
    gateway.get(`/v1/executions/${id}`),
    gateway.get(`/v1/executions/exec_other/events`, { accept: 'text/event-stream' }),
    gateway.get('/readyz'),
  ]);
  const [mine, random, ...others] = answers;
  for (const answer of [mine, random])
    expect(answer).toMatchObject({
      status: 503,
      body: { code: 'RUNTIME_UNAVAILABLE', details: { outcome: 'unknown' } },
    });
  expect(mine?.body.details.responseId).toBe('mine');
  expect(random?.body.details.responseId).toMatch(/^resp_/);
  expect(mine?.headers.get('retry-after')).toBe('1');
  expect(others.map(({ status }) => status)).toEqual([503, 503, 503, 503]);
}

describe('every stream is exactly 1 … N', () => {
  it('while its run rolls over', async () => {
    const { id } = await gateway.run(cluster, [{ say: 'x'.repeat(60), chunk: 1, everyMs: 40 }]);
    const readers = [new Reader(id), new Reader(id, 1), new Reader(id, 7)];
    await expectWhole(id, readers);
    expect(readers[0]?.connections).toBe(1);
    expect(await (await cluster.handle(id).describe()).raw.workflowExecutionInfo?.firstRunId).not.toBe(
      (await cluster.handle(id).describe()).runId,
    );
  });

  it('or says that what comes next is gone: never a silent gap', async () => {
    const { id } = await gateway.run(undefined, [{ say: 'x'.repeat(40), chunk: 1, everyMs: 40 }, { hang: true }]);
    const first = (await cluster.handle(id).describe()).runId;
    await expect.poll(async () => (await cluster.handle(id).describe()).runId, { timeout: 20_000 }).not.toBe(first);
    await cluster.temporal.workflowService.deleteWorkflowExecution({
      namespace: 'default',
      workflowExecution: { workflowId: `default.${id}`, runId: first },
    });
    const path = `/v1/executions/${id}/events`;
    await expect.poll(async () => (await gateway.get(path)).status, { timeout: 20_000 }).toBe(410);
    const { body } = await gateway.get(path);
    const oldest = Number(body.details.oldestSequence);
    expect(body.code).toBe('EVENTS_EXPIRED');
    expect(oldest).toBeGreaterThan(1);
    const stream = { accept: 'text/event-stream' };
    expect(await gateway.get(path, stream)).toMatchObject({
      status: 410,
      body: { details: { oldestSequence: oldest } },
    });
    expect((await gateway.get(path, { ...stream, 'last-event-id': String(oldest - 2) })).status).toBe(410);
    const rest = await RawStream.open(gateway.url, `${path}?after=${oldest - 1}`);
    await rest.until(() => rest.parser.frames.length > 0);
    expect(rest.sequences[0]).toBe(oldest);
    rest.socket.destroy();
    await gateway.post(`/v1/executions/${id}:cancel`);
  });

  it('while its worker is killed and the server restarts', async () => {
    const text = (letter: string): object => ({ say: letter.repeat(30), chunk: 1, everyMs: 40 });
    const { id } = await gateway.run(cluster, [text('a'), { record: 1 }, text('b'), { record: 2 }, text('c')]);
    const readers = [new Reader(id), new Reader(id, 5)];
    await cluster.seen(id, (event) => event.sequence > 12);
    await worker.kill();
    worker = await startWorker();
    await cluster.seen(id, (event) => event.type === 'provider.event' && event.data.name === 'runtime.recovered');
    const asking = await gateway.run(cluster, [{ approve: { title: 'ok?' } }]);
    const action = await gateway.action(asking.id);
    const { address } = cluster.server;
    await cluster.server.kill();
    await expectUnavailable(asking.id, action.id);
    const port = Number(address.split(':')[1]);
    restarted = await startDevServer({ dbFile: join(folder, 'state.db'), port });
    await expectWhole(id, readers);
    // An outage beneath it is not the stream's end.
    expect(readers[0]?.connections).toBe(1);
    expect((await gateway.get(`/v1/executions/${id}`)).body.state).toBe('succeeded');
  }, 200_000);
});
