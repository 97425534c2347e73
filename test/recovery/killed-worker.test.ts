import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Cluster, QUICK_POOL, types } from '../support/cluster.js';
import { WorkerProcesses } from '../support/kill.js';
import { expectWhole, keptText, recoveries } from '../support/log-checks.js';

let cluster: Cluster;
const workers = new WorkerProcesses(() => ({ address: cluster.server.address, pool: QUICK_POOL }));

beforeAll(async () => {
  cluster = await Cluster.start();
});

afterEach(() => workers.killAll());

afterAll(async () => {
  await workers.end();
  // A worker in this process answers the queries of the comparison.
  await cluster.worker();
  const compared = await cluster.stopCompared();
  expect(compared.equal).toBeGreaterThanOrEqual(5);
});

describe('a worker killed with kill -9', () => {
  it('while a suspended approval waits: the answer goes on with another worker, and the reader notices nothing', async () => {
    const first = await workers.start();
    const { id } = await cluster.run([{ say: 'a' }, { approve: { title: 'ok?' } }, { say: 'b' }], { suspend: true });
    const reading = cluster.log(id);
    const { id: actionId } = await cluster.action(id);
    await first.kill();
    // The answer needs no worker to be accepted.
    await cluster.client.respond(id, actionId, { approved: true });
    await workers.start();
    const events = await reading;
    expectWhole(events);
    expect((await cluster.client.getExecution(id)).finalOutput).toBe('aapprovedb');
    expect(recoveries(events)).toEqual([]);
    expect(await cluster.log(id)).toEqual(events);
  });

  it('while a journaled execution streams: it is resumed from its last entry, with one runtime.recovered', async () => {
    const first = await workers.start();
    const steps = [
      { say: 'one ' },
      { record: 1 },
      { say: 'two ' },
      { record: 2 },
      { say: 'abcdefghij', chunk: 1, everyMs: 300 },
    ];
    const { id } = await cluster.run(steps);
    const reading = cluster.log(id);
    await cluster.seen(id, (event) => event.type === 'output.text.delta' && event.data.text === 'c');
    await first.kill();
    await workers.start();
    const events = await reading;
    expectWhole(events);
    expect(types(events).at(-1)).toBe('run.completed');
    expect((await cluster.client.getExecution(id)).finalOutput).toBe('one two abcdefghij');
    const [again, ...more] = recoveries(events);
    expect(more).toEqual([]);
    expect(again?.attempt).toBe(2);
    // What a reader keeps is what came up to there: the text before the last entry.
    expect(keptText(events.filter((event) => event.sequence <= again!.resumedFrom))).toBe('one two ');
    expect(types(events).filter((type) => type === 'run.started')).toHaveLength(1);
    expect(await cluster.log(id)).toEqual(events);
  });

  it('while one without a journal streams: PROVIDER_LOST, one terminal event, nothing repeated', async () => {
    const first = await workers.start();
    const { id } = await cluster.run([{ say: 'abcdefghij', chunk: 1, everyMs: 300 }]);
    const reading = cluster.log(id);
    await cluster.seen(id, (event) => event.type === 'output.text.delta' && event.data.text === 'b');
    await first.kill();
    await workers.start();
    const events = await reading;
    expectWhole(events);
    expect(events.at(-1)).toMatchObject({ type: 'run.failed', data: { code: 'PROVIDER_LOST' } });
    expect(await cluster.log(id)).toEqual(events);
  });

  it('while a live approval is open: the journaled attempt that asks the same again gets the answer given meanwhile', async () => {
    const first = await workers.start();
    const { id } = await cluster.run([{ record: 0 }, { approve: { title: 'ok?', payload: { n: 1 } } }, { say: '!' }]);
    const reading = cluster.log(id);
    const { id: actionId } = await cluster.action(id);
    await first.kill();
    await cluster.client.respond(id, actionId, { approved: true });
    await workers.start();
    const events = await reading;
    expectWhole(events);
    expect((await cluster.client.getExecution(id)).finalOutput).toBe('approved!');
    expect(types(events).filter((type) => type === 'action.required')).toHaveLength(1);
  });

  it('before the host has announced itself: started by another, although it has no journal', async () => {
    const first = await workers.start({ dieAt: { point: 'run.taken', after: 0 } });
    const { id } = await cluster.run([{ say: 'x' }]);
    await first.died();
    await workers.start();
    const events = await cluster.log(id);
    expectWhole(events);
    expect(events.at(-1)).toMatchObject({ type: 'run.completed', data: { finalOutput: 'x' } });
    expect(types(events).filter((type) => type === 'run.started')).toHaveLength(1);
  });

  it('after its result is in the log but before it was returned: the result stands', async () => {
    const first = await workers.start({ dieAt: { point: 'host.returns.logged', after: 0 } });
    const { id } = await cluster.run([{ say: 'x' }]);
    await first.died();
    await workers.start();
    const events = await cluster.log(id);
    expectWhole(events);
    expect(events.at(-1)).toMatchObject({ type: 'run.completed', data: { finalOutput: 'x' } });
    await expect
      .poll(async () => (await cluster.handle(id).describe()).status.name, { timeout: 20_000 })
      .toBe('COMPLETED');
  });

  it('while it is cancelling: cancelled, and reported as lost', async () => {
    const first = await workers.start({ dieAt: { point: 'stop.received', after: 0 } });
    const { id } = await cluster.run([{ say: 'x' }, { hang: true }]);
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    await cluster.client.cancel(id, 'stop');
    await first.died();
    await workers.start();
    const events = await cluster.log(id);
    expectWhole(events);
    expect(events.at(-1)?.data).toEqual({ reason: 'stop', confirmation: 'lost' });
  });
});

describe('a worker that drains', () => {
  it('still takes the answer that its live provider waits for', async () => {
    const worker = await workers.start({ drainMs: 20_000 });
    const { id } = await cluster.run([{ approve: { title: 'ok?' } }, { say: '!' }]);
    const { id: actionId } = await cluster.action(id);
    worker.signal('SIGTERM');
    await cluster.client.respond(id, actionId, { approved: true });
    expect((await cluster.client.waitForTerminal(id, { timeoutMs: 15_000 })).finalOutput).toBe('approved!');
    expect((await worker.died()).code).toBe(0);
  });

  it('stops what is left when its time is over: PROVIDER_LOST, said at once', async () => {
    const worker = await workers.start({ drainMs: 200 });
    const { id } = await cluster.run([{ approve: { title: 'ok?' } }]);
    await cluster.action(id);
    worker.signal('SIGTERM');
    expect((await worker.died()).code).toBe(0);
    await workers.start();
    const execution = await cluster.client.waitForTerminal(id, { timeoutMs: 10_000 });
    expect(execution).toMatchObject({ state: 'failed', error: { code: 'PROVIDER_LOST' }, pendingActions: [] });
  });
});
