/** `kill -9` of the worker that drives a remote execution: the next one goes on with it, and starts no other. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type RunningGateway, serveGateway } from '../../gateway/index.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import type { RemoteOptions } from '../../providers/remote/remote.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';
import { expectWhole, keptText, recoveries } from '../support/log-checks.js';

const EXECUTIONS = 5;
const TICKS = 60;

let here: Cluster;
let there: Cluster;
let gateway: RunningGateway;
let options: RemoteOptions;
const workers: ChildProcess[] = [];

beforeAll(async () => {
  [here, there] = await Promise.all([Cluster.start(), Cluster.start()]);
  await there.worker({ pool: PATIENT_POOL });
  gateway = await serveGateway({ client: there.client, port: 0, handleSignals: false });
  const capabilities = { 'action.approval': 'native', 'event.streaming': 'native' } as const;
  options = { baseURL: gateway.url, provider: 'scripted', capabilities };
});
afterAll(async () => {
  for (const worker of workers) worker.kill('SIGKILL');
  await here?.stop();
  await gateway?.close(0);
  await there?.stop();
});

test('three kills: nothing is lost, doubled, started twice or cancelled', async () => {
  let worker = await workerProcess();
  const config = { steps: [...slowly(1, 30), { approve: { title: 'Go on?' } }, ...slowly(31, TICKS)] as never };
  const ids: string[] = [];
  for (let i = 0; i < EXECUTIONS; i++) ids.push((await here.start({ providerId: 'remote', config })).id);
  for (const id of ids) void answered(id);
  for (const reached of [3, 15, 45]) {
    await here.seen(ids[0]!, (event) => tick(event) >= reached);
    worker.kill('SIGKILL');
    await once(worker, 'exit');
    worker = await workerProcess();
  }
  const all = Array.from({ length: TICKS }, (_, i) => i + 1);
  for (const id of ids) {
    const events = await here.log(id);
    expectWhole(events);
    expect(events.at(-1)!.type).toBe('run.completed');
    expect(recoveries(events).length).toBeGreaterThan(0);
    expect(events.map(tick).filter((n) => n > 0)).toEqual(all);
    expect(keptText(events).replace('approved', '').trim().split(' ').map(Number)).toEqual(all);
  }
  // Visibility is some seconds behind.
  await delay(3_000);
  const { executions } = await there.client.listExecutions();
  expect(executions.map(({ state }) => state)).toEqual(ids.map(() => 'succeeded'));
});

async function answered(id: string): Promise<void> {
  const { id: actionId } = await here.action(id);
  await here.client.respond(id, actionId, { approved: true });
}

function tick(event: HoldfastEvent): number {
  return event.type === 'provider.event' && event.data.name === 'x.tick' ? Number(event.data.n) : 0;
}

function slowly(from: number, to: number): object[] {
  const steps: object[] = [];
  for (let n = from; n <= to; n++) steps.push({ say: `${n} ` }, { native: { name: 'x.tick', n } }, { wait: 100 });
  return steps;
}

async function workerProcess(): Promise<ChildProcess> {
  const script = fileURLToPath(new URL('../providers/remote-worker.ts', import.meta.url));
  const given = JSON.stringify({ address: here.server.address, remote: options });
  const child = spawn(process.execPath, ['--import', 'tsx', script, given], { stdio: ['ignore', 'pipe', 'inherit'] });
  workers.push(child);
  await Promise.race([
    once(child.stdout!, 'data'),
    once(child, 'exit').then(() => Promise.reject(new Error('the worker process ended'))),
  ]);
  return child;
}
