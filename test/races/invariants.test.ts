/**
 * The nine invariants (DESIGN §1) over a real server: random interleavings of batches, duplicates, stale tokens,
 * answers, cancels, losses, rollovers and timeouts as raw signals, and what came of them as readers and the workflow's
 * own query tell it.
 */
import { DefaultLogger, Runtime } from '@temporalio/worker';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import type { HoldfastError } from '../../protocol/errors.js';
import { eventSchema, type HoldfastEvent } from '../../protocol/event.js';
import type { Json } from '../../protocol/json.js';
import { Raw, UNDECODABLE_PAYLOADS } from '../messages/raw.js';
import { Cluster, PATIENT_POOL, types } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';
import { PuppetHost, type Strings } from '../support/puppet-host.js';
import { LIVES } from '../support/scale.js';
import { chance } from '../support/seed.js';
import { FORGED, type Life, life, type Move } from './random-life.js';

/** The machine may be busy; what is looked at here is order, never time. */
vi.setConfig({ testTimeout: 400_000, hookTimeout: 120_000 });

const AT_ONCE = 12;
const REQUIRED = ['action.approval', 'action.input'];

let cluster: Cluster;
let host: PuppetHost;
let raw: Raw;
let conversationId: string;

beforeAll(async () => {
  cluster = await Cluster.start();
  // Each message that is dropped is a warning, and here are hundreds.
  Runtime.install({ shutdownSignals: [], logger: new DefaultLogger('ERROR') });
  await cluster.worker({ pool: PATIENT_POOL });
  host = await PuppetHost.start(cluster, 'puppet');
  raw = new Raw(cluster.temporal);
  conversationId = (await cluster.client.createConversation()).id;
});

afterAll(async () => {
  await host?.stop();
  await cluster?.stop();
});

/** Lives one life for real, and remembers what was done. */
class Play {
  readonly id: string;
  readonly puppet: Strings;
  cancels = 0;
  /** By action: the response ids whose callers were told `accepted`. */
  readonly accepted = new Map<string, Set<string>>();
  private readonly sent: { name: string; argument: object }[] = [];
  private batch = 1;
  private said = 0;

  private constructor(
    id: string,
    readonly request: Parameters<typeof cluster.client.startExecution>[0],
  ) {
    this.id = id;
    this.puppet = host.of(`default.${id}`);
  }

  static async start({ recovery, refuse, end }: Life, index: number): Promise<Play> {
    const request = {
      conversationId,
      providerId: 'puppet',
      input: { recovery, refuse },
      requiredCapabilities: REQUIRED,
      idempotencyKey: `life ${index}`,
      ...(end === 'timeout' ? { timeoutSeconds: 2 } : {}),
    };
    const { execution, replayed } = await cluster.client.startExecution(request);
    expect(replayed).toBe(false);
    cluster.started.push(execution.id);
    return new Play(execution.id, request);
  }

  async live({ groups, end, refuse }: Life): Promise<void> {
    // Some moves come before the host does.
    await Promise.all((groups[0] ?? []).map((move) => this.make(move)));
    if (!refuse)
      await expect
        .poll(async () => this.puppet.tokens.length > 0 || (await this.ended()), { timeout: 60_000, interval: 20 })
        .toBe(true);
    for (const group of groups.slice(1)) {
      await Promise.all(group.map((move) => this.make(move)));
      await this.wished();
    }
    for (let tries = 0; !(await this.ended()); tries++) {
      if (end === 'timeout') await this.closed();
      else if (end === 'five cancels') await Promise.all(Array.from({ length: 5 }, () => this.cancel('client')));
      else if (end === 'cancel' || tries > 3) await this.cancel('signal');
      else {
        // Who waits for an answer gets it, so that there is somebody who can come to an end.
        for (const { id, kind } of (await cluster.client.getExecution(this.id)).pendingActions)
          await this.respond(
            id,
            `resp_end_${tries}`,
            kind === 'approval' ? { approved: true } : { value: 1 },
            'client',
          );
        const last = end === 'completed' ? {} : { code: 'PROVIDER_ERROR', message: 'as planned' };
        await this.append(this.puppet.tokens.at(-1) ?? '', ++this.batch, [{ kind: end, ...last }]);
      }
      await Promise.race([this.closed(), new Promise((resolve) => setTimeout(resolve, 1_000))]);
    }
    await this.closed();
  }

  /** Until the host did what was wished for, unless there is nobody (a suspended one, say) who could. */
  private async wished(): Promise<void> {
    for (let looks = 0; looks < 20 && this.puppet.wish !== undefined; looks++)
      await new Promise((resolve) => setTimeout(resolve, 25));
  }

  private async make(move: Move): Promise<void> {
    switch (move.do) {
      case 'batch': {
        const { tokens } = this.puppet;
        const token = { own: tokens.at(-1), first: tokens[0], stranger: 'of-a-stranger' }[move.token] ?? 'none';
        const number = { next: () => ++this.batch, same: () => this.batch, far: () => this.batch + 2 }[move.number]();
        // Each text is said once, so that a log which takes a batch twice shows it; of an attempt that is over, never.
        const stale = tokens.length > 0 && token !== tokens.at(-1);
        const items = move.items.map((item) => {
          if (!('text' in item) || typeof item.text !== 'string') return item;
          return { ...item, text: `${stale ? FORGED : item.text}#${++this.said}` };
        });
        return await this.append(token, number, items);
      }
      case 'again': {
        const again = this.sent[move.which % Math.max(1, this.sent.length)];
        return again === undefined ? undefined : await this.signal(again.name, again.argument);
      }
      case 'respond':
        return await this.respond(move.actionId, move.responseId, move.response, move.by);
      case 'cancel':
        return await this.cancel(move.by);
      case 'lose':
      case 'rollover':
        this.puppet.wish = move.do;
        return;
      case 'undecodable': {
        const payloads = Object.values(UNDECODABLE_PAYLOADS);
        const bad = payloads[this.sent.length % payloads.length]!;
        for (const name of ['append', 'respond', 'turn'])
          await raw.signal(`default.${this.id}`, name, [bad]).catch(gone);
        return;
      }
      case 'announce':
        // Of an attempt that never was, and once more of the first; before that it would be no forgery.
        if (this.puppet.tokens.length === 0) return;
        for (const attempt of [1, 99])
          await this.signal('announce', {
            attempt,
            token: `late-${attempt}`,
            queue: FORGED,
            watchQueue: FORGED,
            providerVersion: FORGED,
            capabilities: {},
            effectiveConfig: {},
            recovery: 'none',
          });
        return;
      case 'replay': {
        const again = await cluster.client.startExecution({
          ...this.request,
          requiredCapabilities: [...REQUIRED].reverse(),
        });
        expect([again.execution.id, again.replayed]).toEqual([this.id, true]);
        return;
      }
      case 'conflict':
        await expect(cluster.client.startExecution({ ...this.request, config: { other: 1 } })).rejects.toMatchObject({
          code: 'IDEMPOTENCY_CONFLICT',
        });
        return;
      default:
        move satisfies never;
    }
  }

  private async append(token: string, batch: number, items: readonly object[]): Promise<void> {
    await this.signal('append', { token, batch, items });
  }

  private async respond(actionId: string, responseId: string, response: Json, by: 'signal' | 'client'): Promise<void> {
    if (by === 'signal') return await this.signal('respond', { actionId, responseId, response });
    const verdict = await cluster.client
      .respond(this.id, actionId, response as never, { responseId, timeoutMs: 20_000 })
      .then(() => 'accepted')
      .catch((error: HoldfastError) => error.code);
    if (verdict === 'accepted') this.accepted.set(actionId, (this.accepted.get(actionId) ?? new Set()).add(responseId));
    else
      expect(['VALIDATION_ERROR', 'ACTION_NOT_FOUND', 'ACTION_ALREADY_RESOLVED', 'INVALID_STATE']).toContain(verdict);
  }

  private async cancel(by: 'signal' | 'client' | 'temporal'): Promise<void> {
    this.cancels += 1;
    if (by === 'client') await cluster.client.cancel(this.id, 'enough');
    else if (by === 'signal') await this.signal('cancel', { reason: 'enough' });
    else await cluster.handle(this.id).cancel().catch(gone);
  }

  /** Raw, as anybody could send it; one that has ended takes no more. */
  private async signal(name: string, argument: object): Promise<void> {
    this.sent.push({ name, argument });
    await cluster.handle(this.id).signal(name, argument).catch(gone);
  }

  private async ended(): Promise<boolean> {
    return (await cluster.handle(this.id).describe()).status.name !== 'RUNNING';
  }

  private async closed(): Promise<void> {
    await cluster
      .handle(this.id)
      .result()
      .catch(() => undefined);
  }
}

/** Nobody is there any more; anything else is a fault. */
function gone(error: unknown): void {
  if (!/not found|already completed/i.test(String(error))) throw error;
}

const ended = new Map<string, number>();

async function holds({ refuse, end }: Life, play: Play): Promise<void> {
  const events = await cluster.log(play.id);
  const execution = await cluster.client.getExecution(play.id);
  const last = events.at(-1)!;
  const of = <T extends HoldfastEvent['type']>(type: T) =>
    events.filter((event): event is Extract<HoldfastEvent, { type: T }> => event.type === type);
  ended.set(last.type, (ended.get(last.type) ?? 0) + 1);

  // 1 and 2; envelopes are the runtime's own whatever the data says.
  expectWhole(events);
  for (const event of events) {
    expect(eventSchema.parse(event)).toEqual(event);
    expect(event).toMatchObject({ id: `${play.id}:${event.sequence}`, executionId: play.id });
  }

  // 3: nothing of a provider before it was called, which is on record with the levels of what was required.
  const startedAt = types(events).indexOf('run.started');
  if (refuse) {
    expect(startedAt).toBe(-1);
    if (play.cancels === 0 && end !== 'timeout') expect(last.data).toMatchObject({ code: 'CAPABILITY_UNSUPPORTED' });
  }
  const ofProvider = /^(output\.text\.delta|artifact\.|action\.|provider\.event)/;
  const firstOfProvider = types(events).findIndex((type) => ofProvider.test(type));
  if (firstOfProvider >= 0) expect(startedAt).toBe(1);
  for (const { data } of of('run.started'))
    expect(data.capabilities).toEqual({ 'action.approval': 'native', 'action.input': 'emulated' });

  // 4: whatever came since, the key finds its original (and refuses another request); see also the moves.
  const again = await cluster.client.startExecution({
    conversationId,
    providerId: 'puppet',
    input: execution.input,
    requiredCapabilities: REQUIRED,
    idempotencyKey: play.request.idempotencyKey,
  });
  expect([again.execution.id, again.replayed, again.execution.state]).toEqual([play.id, true, execution.state]);

  // 5: only a cancel ends as cancelled, and it says how it knows.
  if (last.type === 'run.cancelled') {
    expect(play.cancels).toBeGreaterThan(0);
    expect(['cooperative', 'not_running']).toContain(last.data.confirmation);
  }

  // 6: nothing forged, foreign or stale.
  expect(JSON.stringify(events)).not.toContain(FORGED);
  for (const event of of('provider.event'))
    expect(['test.note', 'runtime.recovered', 'runtime.action_withdrawn']).toContain(event.data.name);

  const texts = of('output.text.delta').map(({ data }) => data.text);
  expect(new Set(texts).size).toBe(texts.length);

  // 7
  const created = of('artifact.created').map(({ data }) => data.id);
  expect(new Set(created).size).toBe(created.length);
  expect((await cluster.client.artifacts(play.id)).map(({ id }) => id)).toEqual(created);

  // 8: one cleanup a provider, and one end (2).
  const stopped = play.puppet.stops.map(({ token }) => token);
  expect(new Set(stopped).size).toBe(stopped.length);
  expect(of('run.cancelled').length).toBeLessThanOrEqual(1);

  // 9: an answer is applied once, to a question that was open, and handed out as it was accepted.
  const asked = of('action.required').map(({ data }) => data.id);
  expect(new Set(asked).size).toBe(asked.length);
  for (const id of asked) {
    const responded = of('action.responded').filter(({ data }) => data.actionId === id);
    expect(responded.length).toBeLessThanOrEqual(1);
    const winners = play.accepted.get(id) ?? new Set();
    expect(winners.size).toBeLessThanOrEqual(1);
    if (winners.size > 0) expect(responded).toHaveLength(1);
    const required = of('action.required').find(({ data }) => data.id === id)!;
    for (const { sequence } of responded) expect(sequence).toBeGreaterThan(required.sequence);
    const handedOut = play.puppet.deliveries.filter(({ answer }) => answer?.actionId === id);
    if (handedOut.length > 0) expect(responded).toHaveLength(1);
    expect(new Set(handedOut.map(({ answer }) => JSON.stringify(answer?.response))).size).toBeLessThanOrEqual(1);
  }
  for (const { data } of of('action.responded')) expect(asked).toContain(data.actionId);
  expect(execution.pendingActions).toEqual([]);
}

it(`hold in ${LIVES} random lives, for every reader and for the workflow`, async () => {
  const { seed } = chance('invariants');
  const lives = fc.sample(life, { numRuns: LIVES, seed });
  for (let from = 0; from < LIVES; from += AT_ONCE)
    await Promise.all(
      lives.slice(from, from + AT_ONCE).map(async (each, i) => {
        const play = await Play.start(each, from + i);
        try {
          await play.live(each);
          await holds(each, play);
        } catch (error) {
          console.log(`life ${from + i} (${play.id}): ${JSON.stringify(each, null, 1)}`);
          throw error;
        }
      }),
    );
  expect(ended.size).toBeGreaterThan(1);

  const compared = await cluster.compare();
  expect(compared.different).toEqual([]);
  expect(compared.notCompared).toEqual([]);
  expect(compared.divergences).toBe(0);
  expect(compared.equal).toBe(LIVES);
  console.log('ends:', Object.fromEntries(ended), `runs: ${compared.runs}`);
  // Of a few lives none may have been continued as new.
  if (LIVES >= 100) expect(compared.runs).toBeGreaterThan(LIVES);
});
