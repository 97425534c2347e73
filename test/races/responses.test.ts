/** Answers that race: each caller's verdict is what the log says, never a false accepted, refused or cancelled. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import type { HoldfastError } from '../../protocol/errors.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { briefProvider } from '../support/brief-provider.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';
import { RACES } from '../support/scale.js';
import { type Chance, chance } from '../support/seed.js';

/** The machine may be busy; what is measured here is order, never time. */
vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

/** 200 in the faults suite; fewer where it is one of many. */
const BATCH = 25;

let cluster: Cluster;
let random: Chance;

beforeAll(async () => {
  random = chance('responses');
  cluster = await Cluster.start();
  await cluster.worker({
    providers: [scriptedProvider(), briefProvider()],
    rollover: { batches: 6 },
    pool: PATIENT_POOL,
  });
});

afterAll(async () => {
  // A sample: each comparison replays the runs of one execution.
  const sample = random.shuffled(cluster.started).slice(0, 100);
  cluster.started.splice(0, cluster.started.length, ...sample);
  await cluster.stopCompared();
});

type Outcome = 'accepted' | HoldfastError['code'];

async function outcomeOf(answer: Promise<unknown>): Promise<Outcome> {
  return await answer.then(
    () => 'accepted' as const,
    (error: HoldfastError) => error.code,
  );
}

/** `count` times `once`, so many at a time, each in an execution of its own. */
async function inBatches(count: number, once: (index: number) => Promise<void>): Promise<void> {
  for (let done = 0; done < count; done += BATCH)
    await Promise.all(Array.from({ length: Math.min(BATCH, count - done) }, (_, i) => once(done + i)));
}

/** In the next turns of the event loop or some milliseconds later, so that two calls meet in every order. */
async function soon(ms: number): Promise<void> {
  if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
}

const responded = (events: readonly HoldfastEvent[], actionId: string) =>
  events.filter((event) => event.type === 'action.responded' && event.data.actionId === actionId);

let shared: Promise<string> | undefined;
/** Races need no conversation each: these providers take no turns. */
function conversation(): Promise<string> {
  shared ??= cluster.client.createConversation().then(({ id }) => id);
  return shared;
}

async function execution(steps: readonly object[], more: { timeoutSeconds?: number; suspend?: boolean } = {}) {
  return await cluster.run(steps, { conversationId: await conversation(), ...more });
}

describe('five concurrent answers', () => {
  it.each([false, true])('one succeeds, four are told it is resolved (suspended: %s)', async (suspend) => {
    await inBatches(20, async () => {
      const { id } = await execution([{ approve: { title: 'ok?' } }], { suspend });
      const { id: actionId } = await cluster.action(id);
      const answers = [true, false, true, false, true].map((approved, i) =>
        outcomeOf(cluster.client.respond(id, actionId, { approved }, { responseId: `resp_${i}` })),
      );
      const outcomes = await Promise.all(answers);
      expect(outcomes.filter((outcome) => outcome === 'accepted')).toHaveLength(1);
      expect(outcomes.filter((outcome) => outcome === 'ACTION_ALREADY_RESOLVED')).toHaveLength(4);
      const won = outcomes.indexOf('accepted') % 2 === 0;
      const { finalOutput } = await cluster.client.waitForTerminal(id, { timeoutMs: 120_000 });
      expect(finalOutput).toBe(won ? 'approved' : 'rejected');
      expect(responded(await cluster.log(id), actionId)).toMatchObject([{ data: { approved: won } }]);
    });
  });

  it('with one response id: all five get the one outcome, and it is applied once', async () => {
    const { id } = await execution([{ approve: { title: 'ok?' } }]);
    const { id: actionId } = await cluster.action(id);
    const same = () => outcomeOf(cluster.client.respond(id, actionId, { approved: true }, { responseId: 'resp_same' }));
    expect(await Promise.all([same(), same(), same(), same(), same()])).toEqual(Array(5).fill('accepted'));
    await cluster.client.waitForTerminal(id);
    expect(responded(await cluster.log(id), actionId)).toHaveLength(1);
  });
});

describe('an answer that timed out', () => {
  it('is said to be unknown, and repeated with its response id it returns the first outcome', async () => {
    let applied = 0;
    await inBatches(BATCH, async (i) => {
      const { id } = await execution([{ approve: { title: 'ok?' } }, { say: '!' }]);
      const { id: actionId } = await cluster.action(id);
      const options = { responseId: `resp_${i}` };
      const first = await cluster.client
        .respond(id, actionId, { approved: true }, { ...options, timeoutMs: i % 12 })
        // A quick server says within a few milliseconds that it was accepted.
        .then(
          () => undefined,
          (error: HoldfastError) => error,
        );
      if (first !== undefined) {
        expect(first).toMatchObject({
          code: 'RUNTIME_UNAVAILABLE',
          details: { outcome: 'unknown', responseId: options.responseId },
        });
        const before = (await cluster.client.listEvents(id)).events;
        if (responded(before, actionId).length > 0) applied += 1;
      }
      // Whether or not the first was applied: it was this answer, and it counts once.
      await cluster.client.respond(id, actionId, { approved: true }, options);
      await cluster.client.waitForTerminal(id, { timeoutMs: 120_000 });
      await cluster.client.respond(id, actionId, { approved: true }, options);
      await expect(cluster.client.respond(id, actionId, { approved: true })).rejects.toMatchObject({
        code: 'ACTION_ALREADY_RESOLVED',
      });
      const events = await cluster.log(id);
      expect(responded(events, actionId)).toHaveLength(1);
      expect(events.at(-1)?.data).toMatchObject({ finalOutput: 'approved!' });
    });
    console.log(`answers that timed out and were applied all the same: ${applied} of ${BATCH}`);
  });
});

/** Both outcomes have to be met, else there was no race; a few rounds may all fall to one side. */
function raced(against: string, seen: Readonly<Record<string, number>>): void {
  console.log(`answer against ${against}:`, seen);
  expect(Object.keys(seen).length).toBeGreaterThan(RACES >= 200 ? 1 : 0);
}

describe(`an answer, ${RACES} times,`, () => {
  it('against a cancel: the verdict is what the log says', async () => {
    const seen: Record<string, number> = {};
    await inBatches(RACES, async (i) => {
      const { id } = await execution([{ approve: { title: 'ok?' } }, { hang: true }], { suspend: i % 2 === 0 });
      const { id: actionId } = await cluster.action(id);
      const [early, late] = [random.whole(8), random.whole(8)];
      const answering = soon(early).then(() => outcomeOf(cluster.client.respond(id, actionId, { approved: true })));
      const cancelling = soon(late).then(() => cluster.client.cancel(id, 'race'));
      const [outcome, cancelled] = await Promise.all([answering, cancelling]);
      expect(['succeeded', 'failed']).not.toContain(cancelled.state);
      const events = await cluster.log(id);
      expectWhole(events);
      expect(events.at(-1)).toMatchObject({ type: 'run.cancelled', data: { reason: 'race' } });
      // No worker was lost, so none may be reported as lost.
      expect(events.at(-1)?.data).toMatchObject({ confirmation: expect.stringMatching(/^(cooperative|not_running)$/) });
      expect(outcome).toBe(responded(events, actionId).length === 1 ? 'accepted' : 'INVALID_STATE');
      seen[outcome] = (seen[outcome] ?? 0) + 1;
    });
    raced('cancel', seen);
  });

  it('against completion: the verdict is what the log says', async () => {
    const seen: Record<string, number> = {};
    await inBatches(RACES, async () => {
      // Open for a moment only, then taken back by the provider's own end.
      const { id } = await cluster.start({
        conversationId: await conversation(),
        providerId: 'brief',
        config: { forMs: 50 + random.whole(300) },
      });
      const { id: actionId } = await cluster.action(id);
      await soon(random.whole(200));
      const outcome = await outcomeOf(cluster.client.respond(id, actionId, { approved: true }));
      const events = await cluster.log(id);
      expectWhole(events);
      expect(events.at(-1)?.type).toBe('run.completed');
      expect(outcome).toBe(responded(events, actionId).length === 1 ? 'accepted' : 'INVALID_STATE');
      seen[outcome] = (seen[outcome] ?? 0) + 1;
    });
    raced('completion', seen);
  });

  it('against the timeout: the verdict is what the log says', async () => {
    const seen: Record<string, number> = {};
    await inBatches(RACES, async (i) => {
      const { id, createdAt } = await execution([{ approve: { title: 'ok?' } }, { hang: true }], {
        timeoutSeconds: 4,
        suspend: i % 2 === 0,
      });
      const { actionId } = await cluster.action(id).then(
        (action) => ({ actionId: action.id }),
        // On a machine too busy to ask in time there is no race to look at.
        () => ({ actionId: undefined }),
      );
      if (actionId === undefined) return;
      const due = Date.parse(createdAt) + 4_000;
      await soon(due - Date.now() - 10 + random.whole(400));
      const outcome = await outcomeOf(cluster.client.respond(id, actionId, { approved: true }));
      const events = await cluster.log(id);
      expectWhole(events);
      expect(events.at(-1)).toMatchObject({ type: 'run.failed', data: { code: 'EXECUTION_TIMEOUT' } });
      if (responded(events, actionId).length === 1) expect(outcome).toBe('accepted');
      else expect(['INVALID_STATE', 'ACTION_ALREADY_RESOLVED']).toContain(outcome);
      expect((await cluster.client.getExecution(id)).pendingActions).toEqual([]);
      seen[outcome] = (seen[outcome] ?? 0) + 1;
    });
    raced('timeout', seen);
  });

  it('against a rollover: accepted, delivered once, and the execution succeeds', async () => {
    await inBatches(RACES, async (i) => {
      // The run is continued as new after six batches: some executions meet it before, some with, some after the answer.
      const { id } = await execution(
        [{ say: 'abcdef'.slice(0, 1 + (i % 6)), chunk: 1, everyMs: 30 }, { approve: { title: 'ok?' } }, { say: '!' }],
        { suspend: i % 4 === 0 },
      );
      const { id: actionId } = await cluster.action(id);
      await soon(random.whole(50));
      const outcome = await outcomeOf(cluster.client.respond(id, actionId, { approved: true }));
      expect(outcome).toBe('accepted');
      const { finalOutput } = await cluster.client.waitForTerminal(id, { timeoutMs: 120_000 });
      expect(finalOutput).toBe(`${'abcdef'.slice(0, 1 + (i % 6))}approved!`);
      const events = await cluster.log(id);
      expectWhole(events);
      expect(responded(events, actionId)).toHaveLength(1);
    });
  });
});
