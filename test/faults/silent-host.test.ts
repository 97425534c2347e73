/** Hosts that take an attempt and fall silent, or fail it: bounded, unless they have something to say. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { installFaultHook } from '../../activities/fault-points.js';
import { MAX_RECOVERIES_WITHOUT_PROGRESS } from '../../protocol/limits.js';
import { PROTOCOL_VERSION, type ProviderManifest } from '../../protocol/manifest.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { announceProviders } from '../../worker/announce.js';
import { providerQueue } from '../../workflows/messages.js';
import { json } from '../messages/raw.js';
import { Cluster, types } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';

const POOL = { heartbeatTimeoutMs: 500, leaseMs: 2_000, stopGraceMs: 500 };
/** Of silences in a row; see workflows/suspicion.ts. */
const BOUND = 8;

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker();
  const manifest: ProviderManifest = {
    id: 'silent',
    name: 'Silent',
    version: '1',
    protocolVersion: PROTOCOL_VERSION,
    topologies: ['embedded'],
    capabilities: {},
  };
  await announceProviders(cluster.temporal, [{ manifest, taskQueue: providerQueue('silent'), pool: POOL }]);
});

afterAll(async () => {
  await cluster.stopCompared();
});

/** Takes one task from the queue, shows one sign of life or none, and is never heard of again. */
async function takeAndFallSilent(
  queue: string,
  { signal = new AbortController().signal, sign = true } = {},
): Promise<boolean> {
  const { workflowService: server } = cluster.temporal;
  const { namespace } = cluster.server;
  const poll = () => server.pollActivityTaskQueue({ namespace, taskQueue: { name: queue }, identity: 'silent' });
  const task = await cluster.temporal
    .withAbortSignal(signal, () => cluster.temporal.withDeadline(Date.now() + 30_000, poll))
    .catch(() => undefined);
  if (!task?.taskToken?.length) return false;
  if (!sign) return true;
  const { taskToken } = task;
  await server
    .recordActivityTaskHeartbeat({ namespace, taskToken, details: { payloads: [json('alive')] } })
    .catch(() => undefined);
  return true;
}

class SilentHost {
  private batch = 0;

  private constructor(
    readonly id: string,
    private readonly name: string,
  ) {}

  static async launch(name: string): Promise<SilentHost> {
    const { id } = await cluster.start({ providerId: 'silent', config: {} });
    const host = new SilentHost(id, name);
    expect(await takeAndFallSilent(providerQueue('silent'))).toBe(true);
    await cluster.handle(id).signal('announce', {
      attempt: 1,
      token: name,
      queue: `${name}-host`,
      watchQueue: `${name}-watch`,
      providerVersion: '1',
      capabilities: {},
      effectiveConfig: {},
      recovery: 'none',
    });
    await host.say([{ kind: 'started' }]);
    return host;
  }

  async say(items: readonly object[]): Promise<void> {
    this.batch += 1;
    await cluster.handle(this.id).signal('append', { token: this.name, batch: this.batch, items });
  }

  lookedFor(how?: { signal?: AbortSignal; sign?: boolean }): Promise<boolean> {
    return takeAndFallSilent(`${this.name}-watch`, how);
  }

  async ended(): Promise<boolean> {
    return (await cluster.handle(this.id).describe()).status.name !== 'RUNNING';
  }
}

describe.concurrent('a host that takes every watch and falls silent again', () => {
  it(`is given up after ${BOUND} times: PROVIDER_LOST, and nothing is looked for any more`, async () => {
    const host = await SilentHost.launch('mute');
    const over = new AbortController();
    const end = cluster.client.waitForTerminal(host.id, { timeoutMs: 50_000 }).finally(() => over.abort());
    let looked = 0;
    while (!over.signal.aborted) if (await host.lookedFor({ signal: over.signal })) looked += 1;
    expect((await end).state).toBe('failed');
    expect(looked).toBe(BOUND);
    const events = await cluster.log(host.id);
    expectWhole(events);
    expect(events.at(-1)).toMatchObject({ type: 'run.failed', data: { code: 'PROVIDER_LOST' } });
  });

  it('is kept for as long as its provider has something to say', async ({ expect }) => {
    const host = await SilentHost.launch('slow');
    for (let looked = 0; looked < BOUND + 2; looked++) {
      expect(await host.lookedFor()).toBe(true);
      await host.say([{ kind: 'text', text: `${looked} ` }]);
    }
    await host.say([{ kind: 'completed' }]);
    const execution = await cluster.client.waitForTerminal(host.id, { timeoutMs: 30_000 });
    expect(execution).toMatchObject({ state: 'succeeded', finalOutput: '0 1 2 3 4 5 6 7 8 9 ' });
    await expect.poll(() => host.ended(), { timeout: 20_000 }).toBe(true);
  });
});

describe.concurrent('a host that takes a watch and shows no sign of life', () => {
  it('is asked once more: its server may have gone away in that moment', async ({ expect }) => {
    const host = await SilentHost.launch('hurt');
    for (const sign of [false, true, false]) expect(await host.lookedFor({ sign })).toBe(true);
    await host.say([{ kind: 'completed' }]);
    expect((await cluster.client.waitForTerminal(host.id, { timeoutMs: 30_000 })).state).toBe('succeeded');
    await expect.poll(() => host.ended(), { timeout: 20_000 }).toBe(true);
  });

  it('and none when asked again, is gone', async () => {
    const host = await SilentHost.launch('dead');
    for (let looked = 0; looked < 2; looked++) expect(await host.lookedFor({ sign: false })).toBe(true);
    const execution = await cluster.client.waitForTerminal(host.id, { timeoutMs: 30_000 });
    expect(execution).toMatchObject({ state: 'failed', error: { code: 'PROVIDER_LOST' } });
  });
});

describe('a host that fails an attempt before its provider is called', () => {
  it('had it: that counts, so the execution ends after a few, with what went wrong', { timeout: 60_000 }, async () => {
    let taken = 0;
    installFaultHook((point) => {
      if (point !== 'run.taken') return;
      taken += 1;
      throw new Error('its key service is away');
    });
    try {
      const { id } = await cluster.run([{ say: 'never' }]);
      const ended = await cluster.client.waitForTerminal(id, { timeoutMs: 45_000 });
      expect(ended).toMatchObject({ state: 'failed', error: { code: 'PROVIDER_LOST' } });
      expect(ended.error?.message).toContain('its key service is away');
      expect(taken).toBe(MAX_RECOVERIES_WITHOUT_PROGRESS + 1);
    } finally {
      installFaultHook(undefined);
    }
  });
});

describe('workers that take tasks and are never heard of again (frozen, cut off)', () => {
  it('use up nothing of an execution that has not started: it begins as soon as one lives', async () => {
    const own = await Cluster.start();
    // The catalog knows the provider; its queue is polled by nobody but this test.
    await (await own.worker()).shutdown();
    await own.worker({ providers: [scriptedProvider({ id: 'elsewhere' })] });
    const { id } = await own.run([{ say: 'x' }]);
    const swallowed = MAX_RECOVERIES_WITHOUT_PROGRESS + 1;
    for (let i = 0; i < swallowed; i++) {
      const { workflowService: server } = own.temporal;
      const { namespace } = own.server;
      const taskQueue = { name: providerQueue('scripted') };
      const task = await own.temporal.withDeadline(Date.now() + 30_000, () =>
        server.pollActivityTaskQueue({ namespace, taskQueue, identity: 'frozen' }),
      );
      expect(task.workflowExecution?.workflowId).toContain(id);
    }
    await own.worker();
    expect(types(await own.log(id))).toEqual([
      'run.queued',
      'run.started',
      'output.text.delta',
      'output.text.done',
      'run.completed',
    ]);
    expect((await own.state(id)).attempt).toBe(swallowed + 1);
    await own.stopCompared();
  });
});
