/** The server killed again while everybody recovers from its first outage: two outages end no more than one. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type DevServer, startDevServer } from '../../dev/server.js';
import type { AnyProvider } from '../../providers/provider.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { Cluster } from '../support/cluster.js';
import { expectWhole, keptText, recoveries } from '../support/log-checks.js';

/** After an outage pollers come back within 12 s. */
const POOL = { heartbeatTimeoutMs: 1_500, leaseMs: 12_000, stopGraceMs: 500 };
const PATIENTLY = { timeout: 120_000, interval: 50 };

let folder: string;
let cluster: Cluster;
let current: DevServer;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-outages-'));
  cluster = await Cluster.start({ dbFile: join(folder, 'temporal.db') });
  current = cluster.server;
});

afterEach(async () => {
  await cluster.stop();
  await current.stop();
  await rm(folder, { recursive: true, force: true });
});

/** Away for longer than any heartbeat timeout, then back at the same address over the same file. */
async function outage(ms = 3 * POOL.heartbeatTimeoutMs): Promise<void> {
  await current.kill();
  // How long the outage lasts, not a wait for anything.
  await delay(ms);
  const port = Number(cluster.server.address.split(':').at(-1));
  current = await startDevServer({ dbFile: join(folder, 'temporal.db'), port });
}

/** How often its host was looked for by now; -1 while the server does not answer. */
async function watches(id: string): Promise<number> {
  try {
    const { events } = await cluster.handle(id).fetchHistory();
    return (events ?? []).filter((event) => event.activityTaskScheduledEventAttributes?.activityType?.name === 'watch')
      .length;
  } catch {
    return -1;
  }
}

it.each([
  ['as long as the first', 3 * POOL.heartbeatTimeoutMs],
  ['longer than a host has to answer', POOL.leaseMs + 2_000],
])(
  'a second outage, %s, ends nothing: providers go on, readers have no gap, and answers arrive',
  async (_, secondMs) => {
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
    const text = Array.from({ length: 250 }, (_, i) => `${i}.`).join('');
    const talk = { say: text, chunk: 4, everyMs: 100 };
    const plain = await cluster.run([talk]);
    const journaled = await cluster.run([{ say: 'a ' }, { record: 1 }, talk]);
    const asking = await cluster.run([{ say: 'live ' }, { approve: { title: 'ok?' } }]);
    const suspended = await cluster.run([{ say: 's ' }, { approve: { title: 'ok?' } }], { suspend: true });
    const reading = [plain, journaled, asking, suspended].map(({ id }) => cluster.log(id));
    for (const each of reading) each.catch(() => undefined);
    for (const { id } of [plain, journaled]) await cluster.seen(id, (event) => event.type === 'output.text.delta');
    const actions = await Promise.all([asking, suspended].map(({ id }) => cluster.action(id)));

    await outage();
    // Its heartbeat timed out when the server came back: it is being looked for at this moment.
    await expect.poll(() => watches(asking.id), PATIENTLY).toBeGreaterThanOrEqual(1);
    await outage(secondMs);
    // Whether it is looked for once more depends on which of them comes back first.
    await expect.poll(() => watches(asking.id), PATIENTLY).toBeGreaterThanOrEqual(1);

    for (const [i, { id }] of [asking, suspended].entries()) {
      const answer = () =>
        cluster.client.respond(id, actions[i]!.id, { approved: true }, { responseId: `resp_${i}` }).then(
          () => 'accepted',
          (error: { code?: string }) => error.code,
        );
      // Whether a first try arrived is unknown when the server is hardly back; the same id is safe to repeat.
      await expect.poll(answer, PATIENTLY).toBe('accepted');
    }
    const logs = await Promise.all(reading);
    for (const [i, expected] of [text, `a ${text}`, 'live approved', 's approved'].entries()) {
      const events = logs[i]!;
      expectWhole(events);
      expect(events.at(-1)).toMatchObject({ type: 'run.completed', data: { finalOutput: expected } });
      expect(keptText(events)).toBe(expected);
    }
    expect(starts.get(plain.id)).toBe(1);
    expect(starts.get(asking.id)).toBe(1);
    expect(starts.get(journaled.id)).toBe(1 + recoveries(logs[1]!).length);
    const compared = await cluster.compare();
    expect(compared.different).toEqual([]);
    expect(compared.divergences).toBe(0);
  },
);
