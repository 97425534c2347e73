/** A host that is cut off (SIGSTOP past its lease, then SIGCONT): the recovered attempt and the zombie never both act. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Cluster, types } from '../support/cluster.js';
import { type WorkerProcess, WorkerProcesses } from '../support/kill.js';
import { expectWhole, recoveries } from '../support/log-checks.js';
import { type Mark, marksFile } from '../support/marking-provider.js';

/** Wide enough that on a busy machine nobody who is well is taken for lost. */
const POOL = { heartbeatTimeoutMs: 5_000, leaseMs: 5_000, stopGraceMs: 300 };

let cluster: Cluster;
let folder: string;
const workers = new WorkerProcesses(() => ({
  address: cluster.server.address,
  pool: POOL,
  marks: folder,
  providerIds: [],
}));

beforeAll(async () => {
  cluster = await Cluster.start();
  folder = await mkdtemp(join(tmpdir(), 'holdfast-marks-'));
});

afterEach(() => workers.killAll());

afterAll(async () => {
  await workers.end();
  await cluster.worker();
  await cluster.stopCompared();
  await rm(folder, { recursive: true, force: true });
});

async function marks(executionId: string): Promise<Mark[]> {
  const text = await readFile(marksFile(folder, executionId), 'utf8').catch(() => '');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Mark);
}

const of = (process: WorkerProcess, all: readonly Mark[]) => all.filter(({ pid }) => pid === process.pid);

describe('a worker stopped past its lease and continued', () => {
  it('journaled: recovered elsewhere once; the zombie appends nothing and its provider is stopped', async () => {
    const zombie = await workers.start();
    const { id } = await cluster.start({ providerId: 'marking-journal', config: { beats: 100 } });
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    const reading = cluster.log(id);
    zombie.signal('SIGSTOP');
    const rescuer = await workers.start();
    const again = await cluster.seen(id, (event) => recoveries([event]).length > 0);
    const continuedAt = Date.now();
    zombie.signal('SIGCONT');
    await expect
      .poll(async () => of(zombie, await marks(id)).some(({ what }) => what === 'stop'), { timeout: 60_000 })
      .toBe(true);
    const events = await reading;
    expectWhole(events);
    expect(events.at(-1)).toMatchObject({ type: 'run.completed', data: { finalOutput: 'done' } });
    expect(recoveries(events)).toHaveLength(1);
    // Not always the second: a task that the server handed to the frozen process makes an attempt of its own.
    expect(recoveries([again])[0]?.attempt).toBeGreaterThanOrEqual(2);
    const all = await marks(id);
    expect(all.filter(({ what }) => what === 'start').map(({ pid }) => pid)).toEqual([zombie.pid, rescuer.pid]);
    // It learns at once that it was away too long: no further heartbeat or lease is waited for.
    const lastOfZombie = of(zombie, all).at(-1)!;
    console.log(`the zombie's provider ran on for ${lastOfZombie.at - continuedAt} ms after it was continued`);
    expect(of(zombie, all).map(({ what }) => what)).not.toContain('end');
    // What it says in that time never enters the log: one delta for each beat of the rescuer after the recovery.
    const deltas = events.filter((event) => event.sequence > again.sequence && event.type === 'output.text.delta');
    expect(deltas).toHaveLength(of(rescuer, all).filter(({ what }) => what === 'beat').length);
    expect(await cluster.log(id)).toEqual(events);
  });

  it('without a journal: PROVIDER_LOST, and the zombie is stopped', async () => {
    const zombie = await workers.start();
    const { id } = await cluster.start({ providerId: 'marking-none', config: { beats: 100_000 } });
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    zombie.signal('SIGSTOP');
    await workers.start();
    const events = await cluster.log(id);
    expectWhole(events);
    expect(events.at(-1)).toMatchObject({ type: 'run.failed', data: { code: 'PROVIDER_LOST' } });
    zombie.signal('SIGCONT');
    await expect
      .poll(async () => of(zombie, await marks(id)).map(({ what }) => what), { timeout: 60_000 })
      .toEqual(expect.arrayContaining(['stop', 'cleanup']));
    expect((await marks(id)).filter(({ what }) => what === 'start')).toHaveLength(1);
    expect(await cluster.log(id)).toEqual(events);
  });
});

describe('a worker killed at the moment it starts its provider', () => {
  it('never lets native work be begun twice: nothing of it is begun before the log says so', async () => {
    const first = await workers.start({ dieAt: { point: 'batch.sending', after: 0 } });
    const { id } = await cluster.start({ providerId: 'marking-none', config: { beats: 4 } });
    await first.died();
    await workers.start();
    const events = await cluster.log(id);
    expectWhole(events);
    // It had not told the log that it would call the provider, so it had not called it: another one does.
    expect(events.at(-1)?.type).toBe('run.completed');
    expect((await marks(id)).filter(({ what }) => what === 'start')).toHaveLength(1);
    expect(types(events).filter((type) => type === 'run.started')).toHaveLength(1);
  });

  it('once the log says so: PROVIDER_LOST, though nobody can tell whether it was called', async () => {
    const first = await workers.start({ dieAt: { point: 'batch.sent', after: 0 } });
    const { id } = await cluster.start({ providerId: 'marking-none', config: { beats: 4 } });
    await first.died();
    await workers.start();
    const events = await cluster.log(id);
    expectWhole(events);
    expect(events.at(-1)).toMatchObject({ type: 'run.failed', data: { code: 'PROVIDER_LOST' } });
    expect((await marks(id)).filter(({ what }) => what === 'start').length).toBeLessThanOrEqual(1);
  });
});
