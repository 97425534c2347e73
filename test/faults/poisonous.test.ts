/** An execution that kills its worker again and again, and what becomes of those that share its workers. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { MAX_RECOVERIES_WITHOUT_PROGRESS } from '../../protocol/limits.js';
import { Cluster, QUICK_POOL } from '../support/cluster.js';
import { WorkerProcesses } from '../support/kill.js';
import { expectWhole, keptText, recoveries } from '../support/log-checks.js';

/** The first attempt, and the recoveries without a new entry in between. */
const DEATHS = MAX_RECOVERIES_WITHOUT_PROGRESS + 1;
/** Long enough for all others to be taken by the same worker before it dies. */
const ALL_TAKEN_MS = 5_000;

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
  await cluster.stopCompared();
});

it('it fails within its bound of deaths; neighbours that record recover, one that records nothing shares the bound', async () => {
  let process = await workers.start();
  const poison = await cluster.run([{ record: 1 }, { wait: ALL_TAKEN_MS }, { crash: true }]);
  const words = Array.from({ length: 60 }, (_, i) => `${i} `);
  const recording = words.flatMap((say, i) => [{ say }, { record: i }, { wait: 400 }]);
  const neighbours = await Promise.all([cluster.run(recording), cluster.run(recording)]);
  // Keeps a journal, and has nothing new in it: nobody can tell it from the one that kills.
  const silent = await cluster.run([{ say: 'x' }, { wait: 600_000 }, { record: 1 }]);
  const plain = await cluster.run([{ say: 'x' }, { wait: 600_000 }]);
  const suspended = await cluster.run([{ say: 's ' }, { approve: { title: 'ok?' } }], { suspend: true });

  let deaths = 0;
  const until = cluster.client.waitForTerminal(poison.id, { timeoutMs: 300_000 });
  const ended = until.then(() => true as const);
  while ((await Promise.race([ended, process.died()])) !== true) {
    deaths += 1;
    process = await workers.start();
  }
  // Never more; fewer when the machine is so busy that a host which lives is taken for lost.
  expect(deaths).toBeGreaterThan(1);
  expect(deaths).toBeLessThanOrEqual(DEATHS);
  expect(await until).toMatchObject({ state: 'failed', error: { code: 'PROVIDER_LOST' } });

  // The last worker lives, and those that went on recording come to their end with all that they said.
  for (const { id } of neighbours) {
    const end = await cluster.client.waitForTerminal(id, { timeoutMs: 300_000 });
    expect(end).toMatchObject({ state: 'succeeded', finalOutput: words.join('') });
    const events = await cluster.log(id);
    expectWhole(events);
    expect(keptText(events)).toBe(words.join(''));
    expect(recoveries(events).length).toBeGreaterThanOrEqual(1);
    expect(recoveries(events).length).toBeLessThanOrEqual(DEATHS);
  }

  // Each of those deaths that met it counts against the silent one as well; what is missing to its bound comes now.
  for (let last = 0; ; ) {
    const seen = async () => {
      const { result, host, attempt } = await cluster.state(silent.id);
      return result !== undefined ? 'ended' : host?.started === true && attempt > last ? attempt : undefined;
    };
    await expect.poll(seen, { timeout: 120_000 }).toBeDefined();
    const now = await seen();
    if (now === 'ended') break;
    last = now ?? last;
    await process.kill();
    process = await workers.start();
  }
  for (const { id } of [silent, plain]) {
    const end = await cluster.client.waitForTerminal(id, { timeoutMs: 60_000 });
    expect(end).toMatchObject({ state: 'failed', error: { code: 'PROVIDER_LOST' } });
    expectWhole(await cluster.log(id));
  }
  const survived = recoveries(await cluster.log(silent.id)).length;
  expect(survived).toBeGreaterThanOrEqual(1);
  expect(survived).toBeLessThanOrEqual(MAX_RECOVERIES_WITHOUT_PROGRESS);
  expect(recoveries(await cluster.log(plain.id))).toEqual([]);

  // Who holds nothing is touched by nothing.
  const { id: actionId } = await cluster.action(suspended.id);
  await cluster.client.respond(suspended.id, actionId, { approved: true });
  const answered = await cluster.client.waitForTerminal(suspended.id, { timeoutMs: 60_000 });
  expect(answered.finalOutput).toBe('s approved');
  expect(recoveries(await cluster.log(suspended.id))).toEqual([]);
});
