/** Cancels at every point of an execution's life: one cleanup, one run.cancelled, and the confirmation is true. */
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type FaultPoint, installFaultHook } from '../../activities/fault-points.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { briefProvider } from '../support/brief-provider.js';
import { Cluster, PATIENT_POOL, types } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';
import { probeProvider } from '../support/probe-provider.js';
import { CANCELS } from '../support/scale.js';
import { type Chance, chance } from '../support/seed.js';

/** The machine may be busy; what is measured here is order, never time. */
vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

let cluster: Cluster;
let random: Chance;
const probe = probeProvider('probe');
const PATIENTLY = { timeout: 60_000 };

beforeAll(async () => {
  random = chance('cancels');
  cluster = await Cluster.start();
  await cluster.worker({ providers: [scriptedProvider(), briefProvider(), probe.provider], pool: PATIENT_POOL });
});

afterEach(() => installFaultHook(undefined));

afterAll(async () => {
  await cluster.stopCompared();
});

/** Holds whoever comes to `point` until `release`; `reached` resolves with the first. */
function holdAt(point: FaultPoint): { readonly reached: Promise<string>; release(): void } {
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const reached = new Promise<string>((resolve) => {
    installFaultHook(async (at, workflowId) => {
      if (at !== point) return;
      resolve(workflowId);
      await released;
    });
  });
  return { reached, release };
}

/** The end of a cancelled execution: whole, one run.cancelled, with this confirmation, and closed as Canceled. */
async function expectCancelled(id: string, confirmation: string, reason = 'enough'): Promise<void> {
  const events = await cluster.log(id);
  expectWhole(events);
  expect(events.filter((event) => event.type === 'run.cancelled')).toHaveLength(1);
  expect(events.at(-1)?.data).toEqual({ reason, confirmation });
  await expect.poll(async () => (await cluster.handle(id).describe()).status.name, PATIENTLY).toBe('CANCELLED');
}

const probed = () => cluster.start({ providerId: 'probe', config: {} });

describe('five concurrent cancels', () => {
  it('clean up once and append one run.cancelled', async () => {
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        const { id } = await probed();
        await cluster.seen(id, (event) => event.type === 'output.text.delta');
        await Promise.all(Array.from({ length: 5 }, () => cluster.client.cancel(id, 'enough')));
        await expectCancelled(id, 'cooperative');
        expect(probe.starts.get(id)).toBe(1);
        expect(probe.cleanups.get(id)).toBe(1);
        expect(probe.running.has(id)).toBe(false);
      }),
    );
  });

  it('change nothing when they come after the end', async () => {
    const { id } = await cluster.run([{ say: 'x' }]);
    const before = await cluster.log(id);
    await Promise.all(Array.from({ length: 5 }, () => cluster.client.cancel(id, 'late')));
    expect(await cluster.log(id)).toEqual(before);
    expect((await cluster.client.getExecution(id)).state).toBe('succeeded');
  });
});

describe('a cancel', () => {
  it('before any worker has seen the execution: not_running, without run.started', async () => {
    const other = await Cluster.start();
    try {
      const first = await other.worker({ pool: PATIENT_POOL });
      await first.shutdown();
      const { id } = await other.run([{ say: 'x' }]);
      expect((await other.client.cancel(id, 'enough')).state).toBe('cancelling');
      await other.worker({ pool: PATIENT_POOL });
      const events = await other.log(id);
      expect(types(events)).toEqual(['run.queued', 'run.cancelled']);
      expect(events.at(-1)?.data).toEqual({ reason: 'enough', confirmation: 'not_running' });
    } finally {
      await other.stop();
    }
  });

  it.each([
    ['a host took it and has told nobody', 'run.taken'],
    ['its host is announced', 'run.announced'],
    ['its first batch is on the way', 'batch.sending'],
  ] as const)('when %s: its provider is never called, or stopped, and that is what is said', async (_, point) => {
    const held = holdAt(point);
    const { id } = await probed();
    await held.reached;
    await cluster.client.cancel(id, 'enough');
    await expect.poll(async () => (await cluster.client.getExecution(id)).state, PATIENTLY).toMatch(/^cancel/);
    held.release();
    await cluster.client.waitForTerminal(id, { timeoutMs: 120_000 });
    await expectCancelled(id, probe.starts.has(id) ? 'cooperative' : 'not_running');
    // The cancel came before it was started, so for the log it never did.
    expect(types(await cluster.log(id))).toEqual(['run.queued', 'run.cancelled']);
    expect(probe.cleanups.get(id)).toBe(probe.starts.get(id));
    expect(probe.running.has(id)).toBe(false);
  });

  it.each([false, true])('while it waits for a person: the action is withdrawn (suspended: %s)', async (suspend) => {
    const { id } = await cluster.run([{ say: 'x' }, { approve: { title: 'ok?' } }], { suspend });
    const { id: actionId } = await cluster.action(id);
    await cluster.client.cancel(id, 'enough');
    await expectCancelled(id, suspend ? 'not_running' : 'cooperative');
    expect(types(await cluster.log(id))).not.toContain('action.responded');
    expect((await cluster.client.getExecution(id)).pendingActions).toEqual([]);
    await expect(cluster.client.respond(id, actionId, { approved: true })).rejects.toMatchObject({
      code: 'INVALID_STATE',
    });
  });

  it('at any moment of a short life: cancelled with the truth, or succeeded; never lost', async () => {
    const seen: Record<string, number> = {};
    for (let batch = 0; batch < CANCELS / 25; batch++)
      await Promise.all(
        Array.from({ length: 25 }, async (_, i) => {
          const { id } =
            i % 2 === 0
              ? await cluster.start({ providerId: 'brief', config: { forMs: random.whole(60) } })
              : await cluster.run([{ say: 'ab', chunk: 1, everyMs: 10 }, { approve: { title: 'ok?' } }], {
                  suspend: true,
                });
          // Some before they are started; the others in the moments after.
          if (i % 3 > 0) await cluster.seen(id, (event) => event.type !== 'run.queued');
          await new Promise((resolve) => setTimeout(resolve, random.whole(80)));
          await cluster.client.cancel(id, 'enough');
          const { state } = await cluster.client.waitForTerminal(id, { timeoutMs: 120_000 });
          const events = await cluster.log(id);
          expectWhole(events);
          const last = events.at(-1);
          // Every host lives, so none may be reported as lost, and none took a stop grace to settle.
          if (last?.type === 'run.cancelled') expect(last.data.confirmation).toMatch(/^(cooperative|not_running)$/);
          else expect(last?.type).toBe('run.completed');
          const how = last?.type === 'run.cancelled' ? last.data.confirmation : state;
          seen[how] = (seen[how] ?? 0) + 1;
        }),
      );
    console.log('cancels at any moment:', seen);
    expect(Object.keys(seen).length).toBeGreaterThan(1);
  });

  it('reaches a provider whose run had just settled: cooperative, not lost', async () => {
    // The provider ends between the cancel and its stop: the cancel is in the log before the result.
    const held = holdAt('batch.sending');
    const { id } = await cluster.start({ providerId: 'brief', config: { forMs: 0 } });
    await held.reached;
    held.release();
    const stopping = holdAt('stop.received');
    stopping.release();
    await cluster.client.cancel(id, 'enough');
    const { state } = await cluster.client.waitForTerminal(id, { timeoutMs: 120_000 });
    if (state === 'cancelled') {
      const last = (await cluster.log(id)).at(-1);
      expect((last?.data as { confirmation?: string } | undefined)?.confirmation).not.toBe('lost');
    }
  });
});

describe('a provider that ignores its abort', () => {
  it('ends within the grace time, is reported as abandoned, and adds nothing afterwards', async () => {
    const pool = { ...PATIENT_POOL, stopGraceMs: 500 };
    await cluster.worker({ providers: [scriptedProvider({ id: 'deaf' })], pool });
    const { id } = await cluster.start({
      providerId: 'deaf',
      config: { steps: [{ ignoreCancel: true }, { say: 'x' }, { wait: 3_000 }, { say: 'late' }] },
    });
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    const asked = Date.now();
    await cluster.client.cancel(id, 'enough');
    await expectCancelled(id, 'abandoned');
    expect(Date.now() - asked).toBeLessThan(3_000);
    expect(types(await cluster.log(id)).filter((type) => type === 'output.text.delta')).toHaveLength(1);
  });
});
