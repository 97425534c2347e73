/** The Temporal server killed with `kill -9` and started again over its file: an outage of any length ends no execution. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type DevServer, startDevServer } from '../../dev/server.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import type { AnyProvider } from '../../providers/provider.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { Cluster, isActionRequired, types } from '../support/cluster.js';
import { WorkerProcesses } from '../support/kill.js';
import { expectWhole, keptText, recoveries } from '../support/log-checks.js';

/** After an outage pollers come back within 12 s. */
const POOL = { heartbeatTimeoutMs: 1_500, leaseMs: 12_000, stopGraceMs: 500 };
/** Longer than anything that keeps a host could wait. */
const AWAY_MS = 3 * POOL.heartbeatTimeoutMs;
const PATIENTLY = { timeout: 120_000, interval: 50 };

let folder: string;
let cluster: Cluster;
let current: DevServer;
const workers = new WorkerProcesses(() => ({ address: cluster.server.address, pool: POOL }));

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-server-'));
  cluster = await Cluster.start({ dbFile: join(folder, 'temporal.db') });
  current = cluster.server;
});

afterEach(async () => {
  await workers.end();
  await cluster.stop();
  await current.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Starts the server again, at the same address over the same file. */
async function restart(): Promise<void> {
  const port = Number(cluster.server.address.split(':').at(-1));
  current = await startDevServer({ dbFile: join(folder, 'temporal.db'), port });
}

/** Killed, away for that long, and back. */
async function outage(ms: number): Promise<void> {
  await current.kill();
  // How long the outage lasts, not a wait for anything.
  await delay(ms);
  await restart();
}

/** A worker whose scripted provider counts how often it is started for an execution. */
async function countingWorker(): Promise<ReadonlyMap<string, number>> {
  const starts = new Map<string, number>();
  const scripted = scriptedProvider();
  const counting: AnyProvider = {
    ...scripted,
    run(ctx) {
      starts.set(ctx.execution.id, (starts.get(ctx.execution.id) ?? 0) + 1);
      return scripted.run(ctx);
    },
  };
  await cluster.worker({ providers: [counting], pool: POOL });
  return starts;
}

/** One execution with a live reader that was there before anything happened. */
class Followed {
  readonly events: HoldfastEvent[] = [];
  readonly ended: Promise<void>;

  constructor(
    readonly id: string,
    readonly text: string,
  ) {
    this.ended = this.read();
    this.ended.catch(() => undefined);
  }

  async until(fits: (event: HoldfastEvent) => boolean): Promise<HoldfastEvent> {
    await expect.poll(() => this.events.some(fits), PATIENTLY).toBe(true);
    return this.events.find(fits)!;
  }

  get last(): HoldfastEvent | undefined {
    return this.events.at(-1);
  }

  private async read(): Promise<void> {
    for await (const event of cluster.client.events(this.id)) this.events.push(event);
  }
}

async function follow(steps: readonly object[], text: string, more: object = {}): Promise<Followed> {
  return new Followed((await cluster.run(steps, more)).id, text);
}

const isText = (event: HoldfastEvent) => event.type === 'output.text.delta';

async function answer({ id, events }: Followed): Promise<void> {
  const action = events.find(isActionRequired)!;
  const responseId = `resp_${action.data.id}`;
  // Whether the first try arrived is unknown when the server is hardly back; the same id is safe to repeat.
  await expect
    .poll(
      () =>
        cluster.client.respond(id, action.data.id, { approved: true }, { responseId }).then(
          () => 'accepted',
          (error: { code?: string }) => error.code,
        ),
      PATIENTLY,
    )
    .toBe('accepted');
}

/** What its iterator gave is whole, once, and what a client reads that has never seen it. */
async function expectRead({ id, events }: Followed): Promise<void> {
  expectWhole(events);
  const fresh = await cluster.anotherClient();
  expect((await fresh.listEvents(id, { limit: 10_000 })).events).toEqual(events);
}

async function expectCompared(): Promise<void> {
  const compared = await cluster.compare();
  expect(compared.different).toEqual([]);
  expect(compared.notCompared).toEqual([]);
  expect(compared.divergences).toBe(0);
}

describe('the server killed, and back after three heartbeat timeouts', () => {
  it('ends nothing: live providers go on, iterators have no gap, who suspended is answered', async () => {
    const starts = await countingWorker();
    const long = Array.from({ length: 60 }, (_, i) => `${i}.`).join('');
    const short = 'the server is away when this ends';
    const talk = (text: string) => ({ say: text, chunk: 1, everyMs: 100 });
    const plain = await Promise.all([follow([talk(long)], long), follow([talk(long), talk(short)], `${long}${short}`)]);
    const asking = await follow([{ say: 'live ' }, { approve: { title: 'ok?' } }], 'live approved');
    const journaled = await Promise.all([
      follow([{ say: 'a ' }, { record: 1 }, talk(long), { record: 2 }, { say: ' end' }], `a ${long} end`),
      follow([talk(short), { record: 1 }, talk(long)], `${short}${long}`),
    ]);
    const suspended = await follow([{ say: 's ' }, { approve: { title: 'ok?' } }], 's approved', { suspend: true });
    await Promise.all([...plain, ...journaled].map((each) => each.until(isText)));
    await Promise.all([asking, suspended].map((each) => each.until(isActionRequired)));
    // Ends while the server is away, so it is started last.
    const brief = await follow([talk(short)], short);
    plain.push(brief);
    await brief.until(isText);
    const all = [...plain, asking, ...journaled, suspended];
    const seen = all.map(({ events }) => [...events]);

    await current.kill();
    // How long the outage lasts, not a wait for anything.
    await delay(AWAY_MS);
    for (const { last } of [...plain, ...journaled]) expect(last?.type).toBe('output.text.delta');
    await restart();

    await Promise.all([asking, suspended].map(answer));
    await Promise.all(all.map((each) => expect.poll(() => each.last?.type, PATIENTLY).toBe('run.completed')));
    await Promise.all(all.map(({ ended }) => ended));
    for (const [i, each] of all.entries()) {
      expect(each.events.slice(0, seen[i]?.length)).toEqual(seen[i]);
      await expectRead(each);
      expect(types(each.events).filter((type) => type === 'run.started')).toHaveLength(1);
      expect(keptText(each.events)).toBe(each.text);
      expect(each.last?.data).toMatchObject({ finalOutput: each.text });
    }
    for (const { id, events } of [...plain, asking]) expect([recoveries(events), starts.get(id)]).toEqual([[], 1]);
    // Stopped where its host could not know whether it still had it, and that once.
    for (const { id, events } of journaled) {
      expect(recoveries(events).length).toBeLessThanOrEqual(1);
      expect(starts.get(id)).toBe(1 + recoveries(events).length);
    }
    const again = journaled.map(({ events }) => recoveries(events).length);
    console.log(`recoveries of the journaled ones: ${again.join(', ')}`);
    await expectCompared();
  });
});

/** How often its host was looked for by now; -1 while the server does not answer. */
async function watches({ id }: Followed): Promise<number> {
  try {
    const { events } = await cluster.handle(id).fetchHistory();
    return (events ?? []).filter((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'watch')
      .length;
  } catch {
    return -1;
  }
}

describe('a second outage, while everybody recovers from the first', () => {
  it.each([
    ['as long as that', AWAY_MS],
    ['longer than a host has to answer', POOL.leaseMs + 5_000],
  ])('%s, ends nothing: providers go on, iterators have no gap, and answers arrive', async (_, secondMs) => {
    const starts = await countingWorker();
    const text = Array.from({ length: 250 }, (_, i) => `${i}.`).join('');
    const talk = { say: text, chunk: 4, everyMs: 100 };
    const plain = await follow([talk], text);
    const journaled = await follow([{ say: 'a ' }, { record: 1 }, talk], `a ${text}`);
    const asking = await follow([{ say: 'live ' }, { approve: { title: 'ok?' } }], 'live approved');
    const suspended = await follow([{ say: 's ' }, { approve: { title: 'ok?' } }], 's approved', { suspend: true });
    await Promise.all([plain, journaled].map((each) => each.until(isText)));
    await Promise.all([asking, suspended].map((each) => each.until(isActionRequired)));

    await outage(AWAY_MS);
    // Its heartbeat timed out when the server came back: it is being looked for at this moment.
    await expect.poll(() => watches(asking), PATIENTLY).toBeGreaterThanOrEqual(1);
    await outage(secondMs);

    await Promise.all([asking, suspended].map(answer));
    const all = [plain, journaled, asking, suspended];
    await Promise.all(all.map(({ ended }) => ended));
    for (const each of all) {
      await expectRead(each);
      expect(each.last).toMatchObject({ type: 'run.completed', data: { finalOutput: each.text } });
      expect(keptText(each.events)).toBe(each.text);
      expect(starts.get(each.id)).toBe(each === suspended ? 2 : 1 + recoveries(each.events).length);
    }
    for (const { events } of [plain, asking]) expect(recoveries(events)).toEqual([]);
    await expectCompared();
  });
});

describe('the server and the worker killed together', () => {
  it('journaled and suspended executions succeed with another worker; any other is PROVIDER_LOST', async () => {
    const first = await workers.start();
    const talk = { say: 'bcdefghijkl', chunk: 1, everyMs: 300 };
    const journaled = await follow([{ say: 'a ' }, { record: 1 }, talk, { record: 2 }, { say: '!' }], `a ${talk.say}!`);
    const plain = await follow([talk], talk.say);
    const asking = await follow([{ approve: { title: 'ok?' } }], 'approved');
    const suspended = await follow([{ approve: { title: 'ok?' } }], 'approved', { suspend: true });
    // Past the entry: what follows was said under it.
    await journaled.until((event) => isText(event) && event.sequence > 4);
    await plain.until(isText);
    await Promise.all([asking, suspended].map((each) => each.until(isActionRequired)));

    await Promise.all([first.kill(), current.kill()]);
    await restart();
    await workers.start();

    await answer(suspended);
    const all = [journaled, plain, asking, suspended];
    await Promise.all(all.map(({ ended }) => ended));
    for (const each of all) await expectRead(each);
    for (const each of [journaled, suspended]) {
      expect(each.last).toMatchObject({ type: 'run.completed', data: { finalOutput: each.text } });
      expect(keptText(each.events)).toBe(each.text);
    }
    expect(recoveries(journaled.events)).toHaveLength(1);
    for (const each of [plain, asking]) {
      expect(each.last).toMatchObject({ type: 'run.failed', data: { code: 'PROVIDER_LOST' } });
      expect(types(each.events).filter((type) => type === 'run.started')).toHaveLength(1);
    }
    await expectCompared();
  });
});
