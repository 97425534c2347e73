/**
 * Workers killed with `kill -9`, at least 60 times, at least five times in each window, several executions per kill.
 * What a reader saw is never lost or changed, no execution stays open, journaled ones complete with the right text.
 *
 * Each lane has a provider of its own and one worker process at a time; a process serves what its predecessor left
 * behind, is then armed, and dies in the next window. Workflow tasks are shared by all, so each kill hits them, too.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { FaultPoint } from '../../activities/fault-points.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import { Cluster } from '../support/cluster.js';
import { WorkerProcess } from '../support/kill.js';
import { expectWhole, keptText, recoveries } from '../support/log-checks.js';
import { type Chance, chance } from '../support/seed.js';

const LANES = 4;
/** A journaled host gives up when it was out of touch for heartbeat + lease − grace: long enough for a busy machine. */
const POOL = { heartbeatTimeoutMs: 2_000, leaseMs: 2_000, stopGraceMs: 300 };
const ROLLOVER = { batches: 8 };
const PATIENCE_MS = 120_000;

type Kind = 'journaled' | 'plain' | 'suspending' | 'cancelled';

interface Window {
  readonly name: string;
  readonly kinds: readonly Kind[];
  /** The process dies by itself at this point; without one the test kills it when all executions are there. */
  readonly point?: FaultPoint;
  /** What has to have happened before the trap is armed, or the process killed. */
  readonly when: 'submitted' | 'streaming' | 'asked';
  /** What is done once it is armed. */
  readonly afterwards?: 'answer' | 'cancel';
}

const ALL: readonly Kind[] = ['journaled', 'plain', 'suspending'];
const WINDOWS: readonly Window[] = [
  { name: 'before the host announced itself', kinds: ALL, point: 'run.taken', when: 'submitted' },
  { name: 'announced, provider not called', kinds: ALL, point: 'run.announced', when: 'submitted' },
  { name: 'between a flush and its acknowledgement', kinds: ALL, point: 'batch.sent', when: 'submitted' },
  { name: 'while text streams', kinds: ALL, when: 'streaming' },
  { name: 'approval open, live', kinds: ['journaled', 'plain', 'journaled'], when: 'asked' },
  { name: 'approval open, suspended', kinds: ['suspending', 'suspending', 'suspending'], when: 'asked' },
  {
    name: 'answer accepted, not delivered',
    kinds: ['journaled', 'plain'],
    point: 'answer.received',
    when: 'asked',
    afterwards: 'answer',
  },
  {
    name: 'answer accepted, not resumed',
    kinds: ['suspending', 'suspending'],
    point: 'run.taken',
    when: 'asked',
    afterwards: 'answer',
  },
  {
    name: 'cancelling',
    kinds: ['cancelled', 'cancelled', 'cancelled'],
    point: 'stop.received',
    when: 'streaming',
    afterwards: 'cancel',
  },
  { name: 'rollover not yet returned', kinds: ALL, point: 'host.returns.rollover', when: 'submitted' },
  { name: 'rollover returned, not re-attached', kinds: ALL, point: 'watch.taken', when: 'submitted' },
  {
    name: 'result returned, not recorded',
    kinds: ALL,
    point: 'host.returns.logged',
    when: 'submitted',
    afterwards: 'answer',
  },
];
const KILLS_EACH = 5;

let cluster: Cluster;
let random: Chance;
const processes = new Set<WorkerProcess>();

beforeAll(async () => {
  random = chance('killed-60');
  cluster = await Cluster.start();
});

afterAll(async () => {
  for (const process of processes) await process.kill();
  await cluster.stop();
});

const STREAM = 'bcdefghijkl';
const TEXT = `a ${STREAM}approved end`;

function stepsOf(kind: Kind): object[] {
  if (kind === 'cancelled') return [{ say: 'a ' }, { record: 1 }, { hang: true }];
  const record = (entry: number): object[] => (kind === 'journaled' ? [{ record: entry }] : []);
  return [
    { say: 'a ' },
    ...record(1),
    { say: STREAM, chunk: 1, everyMs: 80 },
    ...record(2),
    { approve: { title: 'ok?' } },
    { say: ' end' },
  ];
}

/** One execution with its live reader, which answers what is asked once it may. */
class Followed {
  readonly events: HoldfastEvent[] = [];
  readonly ended: Promise<void>;
  private allow: () => void = () => undefined;
  private readonly mayAnswer: Promise<void>;

  constructor(
    readonly id: string,
    readonly kind: Kind,
  ) {
    this.mayAnswer = new Promise((resolve) => {
      this.allow = resolve;
    });
    this.ended = this.read();
    this.ended.catch(() => undefined);
  }

  answer(): void {
    this.allow();
  }

  async until(fits: (event: HoldfastEvent) => boolean): Promise<void> {
    const until = Date.now() + PATIENCE_MS;
    while (!this.events.some(fits)) {
      if (Date.now() > until) throw new Error(await this.story());
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Ends when its log does; fails with what is known of it when that takes too long. */
  async end(): Promise<void> {
    const late = new Promise<'late'>((resolve) => setTimeout(() => resolve('late'), PATIENCE_MS).unref());
    if ((await Promise.race([this.ended, late])) === 'late') throw new Error(await this.story());
  }

  private async story(): Promise<string> {
    const { raw } = await cluster.handle(this.id).describe();
    const tail = this.events.slice(-3).map((event) => JSON.stringify([event.sequence, event.type, event.data]));
    const { state, attempt, host, recoveries: lost, attemptLost } = await cluster.state(this.id);
    const known = JSON.stringify({ state, attempt, host, lost, attemptLost });
    const pending = JSON.stringify([raw.pendingActivities, raw.pendingWorkflowTask]);
    return [`${this.kind} ${this.id} is stuck:`, known, ...tail, pending].join('\n');
  }

  private async read(): Promise<void> {
    for await (const event of cluster.client.events(this.id)) {
      this.events.push(event);
      if (event.type === 'action.required') void this.respond(event.data.id);
    }
  }

  private async respond(actionId: string): Promise<void> {
    await this.mayAnswer;
    await cluster.client
      .respond(this.id, actionId, { approved: true }, { responseId: `resp_${actionId}` })
      .catch((error) => {
        // Withdrawn when its attempt was lost for good.
        if (!/INVALID_STATE|ACTION_ALREADY_RESOLVED/.test(error.code)) throw error;
      });
  }
}

const seenText = (count: number) => (event: HoldfastEvent) =>
  event.type === 'output.text.delta' && event.sequence > count;
const isAsked = (event: HoldfastEvent) => event.type === 'action.required';

class Lane {
  readonly histogram: Record<string, number> = {};
  readonly executions: Followed[] = [];
  caught = 0;
  private next: Promise<WorkerProcess>;

  constructor(private readonly providerId: string) {
    this.next = this.prepare();
  }

  private async prepare(): Promise<WorkerProcess> {
    const process = await WorkerProcess.start({
      address: cluster.server.address,
      pool: POOL,
      rollover: ROLLOVER,
      providerIds: [this.providerId],
      held: true,
    });
    processes.add(process);
    return process;
  }

  /** The next process, polling; another is loaded meanwhile. */
  private async successor(): Promise<WorkerProcess> {
    const process = await this.next;
    this.next = this.prepare();
    await process.go();
    return process;
  }

  async live(windows: readonly Window[]): Promise<void> {
    let process = await this.successor();
    for (const window of windows) {
      const round = await this.killIn(window, process);
      processes.delete(process);
      process = await this.successor();
      for (const followed of round) followed.answer();
      await Promise.all(round.map((followed) => followed.end()));
    }
    // Nothing is left running in it: it drains at once.
    process.signal('SIGTERM');
    expect((await process.died()).code).toBe(0);
    processes.delete(process);
    await (await this.next).kill();
  }

  private async killIn(window: Window, process: WorkerProcess): Promise<readonly Followed[]> {
    const { point } = window;
    const arm = async () =>
      point === undefined ? undefined : await process.arm({ point, executions: window.kinds.length, waitMs: 1_500 });
    if (window.when === 'submitted') await arm();
    const round = await Promise.all(window.kinds.map((kind) => this.submit(kind)));
    this.executions.push(...round);
    if (window.when === 'streaming')
      await Promise.all(round.map((each) => each.until(seenText(each.kind === 'cancelled' ? 2 : 5))));
    if (window.when === 'asked') await Promise.all(round.map((each) => each.until(isAsked)));
    if (window.when !== 'submitted') await arm();
    if (window.afterwards === 'answer') for (const each of round) each.answer();
    if (window.afterwards === 'cancel')
      await Promise.all(round.map((each) => cluster.client.cancel(each.id, 'enough')));
    if (point === undefined) await process.kill();
    const { signal } = await process.died();
    expect(signal).toBe('SIGKILL');
    this.histogram[window.name] = (this.histogram[window.name] ?? 0) + 1;
    this.caught += point === undefined ? round.length : process.caught.length;
    return round;
  }

  private async submit(kind: Kind): Promise<Followed> {
    const { id } = await cluster.run(stepsOf(kind), {
      providerId: this.providerId,
      ...(kind === 'suspending' ? { suspend: true } : {}),
    });
    return new Followed(id, kind);
  }
}

describe('workers killed with kill -9', () => {
  it('in every window: nothing seen is lost or changed, nothing stays open, journaled executions complete', async () => {
    const kills = random.shuffled(WINDOWS.flatMap((window) => Array(KILLS_EACH).fill(window) as Window[]));
    const lanes = Array.from({ length: LANES }, (_, i) => new Lane(`lane-${i}`));
    await Promise.all(lanes.map((lane, i) => lane.live(kills.filter((_, at) => at % LANES === i))));

    const histogram: Record<string, number> = {};
    for (const lane of lanes)
      for (const [name, count] of Object.entries(lane.histogram)) histogram[name] = (histogram[name] ?? 0) + count;
    const total = Object.values(histogram).reduce((sum, count) => sum + count, 0);
    const caught = lanes.reduce((sum, lane) => sum + lane.caught, 0);
    console.log(`${total} kills, ${caught} executions in their windows:`, histogram);
    expect(total).toBeGreaterThanOrEqual(60);
    for (const { name } of WINDOWS) expect(histogram[name]).toBeGreaterThanOrEqual(5);
    expect(caught).toBeGreaterThan(total);

    const executions = lanes.flatMap((lane) => lane.executions);
    const fresh = await cluster.anotherClient();
    const ends: Record<string, number> = {};
    let recovered = 0;
    for (const { id, kind, events } of executions) {
      expectWhole(events);
      expect((await fresh.listEvents(id, { limit: 10_000 })).events).toEqual(events);
      recovered += recoveries(events).length;
      const last = events.at(-1)!;
      const end =
        last.type === 'run.failed'
          ? last.data.code
          : last.type === 'run.cancelled'
            ? `cancelled, ${last.data.confirmation}`
            : last.type;
      ends[`${kind}: ${end}`] = (ends[`${kind}: ${end}`] ?? 0) + 1;
      if (last.type === 'run.completed') {
        expect(last.data.finalOutput).toBe(TEXT);
        expect(keptText(events)).toBe(TEXT);
      }
      if (kind === 'journaled' || kind === 'suspending') expect([id, end]).toEqual([id, 'run.completed']);
      if (kind === 'plain') expect(['run.completed', 'PROVIDER_LOST']).toContain(end);
      if (kind === 'cancelled') expect(end).toMatch(/^cancelled, (lost|cooperative|not_running)$/);
      await expect
        .poll(async () => (await cluster.handle(id).describe()).status.name, { timeout: 30_000 })
        .not.toBe('RUNNING');
    }
    console.log(`${executions.length} executions, ${recovered} recoveries:`, ends);

    await cluster.worker({ pool: POOL });
    const compared = await cluster.compare();
    expect(compared.different).toEqual([]);
    expect(compared.divergences).toBe(0);
  });
});
