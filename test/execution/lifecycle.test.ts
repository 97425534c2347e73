import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HoldfastError } from '../../protocol/errors.js';
import { eventSchema, type HoldfastEvent } from '../../protocol/event.js';
import { executionSchema } from '../../protocol/execution.js';
import { Cluster, types } from '../support/cluster.js';

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker();
});

afterAll(async () => {
  const compared = await cluster.compare();
  await cluster.stop();
  // Read live, afterwards, and by query: the same log.
  expect(compared.different).toEqual([]);
  expect(compared.divergences).toBe(0);
  expect(compared.equal).toBeGreaterThan(10);
});

/** Live, afterwards in pages, and from every cursor: equal, contiguous, valid, with one terminal event at the end. */
async function readEveryWay(executionId: string): Promise<HoldfastEvent[]> {
  const live = await cluster.log(executionId);
  const paged: HoldfastEvent[] = [];
  for (let after = 0; ; ) {
    const page = await cluster.client.listEvents(executionId, { after, limit: 3 });
    if (page.events.length === 0) break;
    paged.push(...page.events);
    after = page.nextCursor;
  }
  expect(paged).toEqual(live);
  const middle = Math.floor(live.length / 2);
  expect(await cluster.log(executionId, middle)).toEqual(live.slice(middle));
  expect(live.map((event) => event.sequence)).toEqual(live.map((_, i) => i + 1));
  for (const event of live) eventSchema.parse(event);
  const terminal = live.filter((event) => /^run\.(completed|failed|cancelled)$/.test(event.type));
  expect(terminal).toEqual([live.at(-1)]);
  return live;
}

async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof HoldfastError) return error.code;
    throw error;
  }
  return 'no error';
}

describe('an execution', () => {
  it('streams its text, completes, and says the same however it is read', async () => {
    const { id } = await cluster.run([{ say: 'hello 👋 world', chunk: 2, everyMs: 5 }]);
    const events = await readEveryWay(id);
    expect(types(events).slice(0, 2)).toEqual(['run.queued', 'run.started']);
    const text = events.map((event) => (event.type === 'output.text.delta' ? event.data.text : '')).join('');
    expect(text).toBe('hello 👋 world');
    expect(types(events).slice(-2)).toEqual(['output.text.done', 'run.completed']);
    const execution = executionSchema.parse(await cluster.client.getExecution(id));
    expect(execution).toMatchObject({ state: 'succeeded', finalOutput: 'hello 👋 world', pendingActions: [] });
    expect(execution.startedAt! >= execution.createdAt && execution.endedAt! >= execution.startedAt!).toBe(true);
  });

  it('waits for an approval, shows it, and goes on with the answer', async () => {
    const { id } = await cluster.run([{ approve: { title: 'Deploy?', payload: { env: 'prod' } } }, { say: ' done' }]);
    const { id: actionId } = await cluster.action(id);
    const waiting = await cluster.client.getExecution(id);
    expect(waiting.state).toBe('awaiting_approval');
    expect(waiting.pendingActions).toMatchObject([{ id: actionId, title: 'Deploy?', payload: { env: 'prod' } }]);
    expect(await codeOf(cluster.client.respond(id, actionId, {}))).toBe('VALIDATION_ERROR');
    expect((await cluster.client.getExecution(id)).state).toBe('awaiting_approval');
    await cluster.client.respond(id, actionId, { approved: true });
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('approved done');
    expect(types(await readEveryWay(id))).toContain('action.responded');
  });

  it('takes an input, also one that is falsy, and never shows its value in action.responded', async () => {
    const { id } = await cluster.run([{ ask: { title: 'How many?' } }]);
    const { id: actionId } = await cluster.action(id);
    expect((await cluster.client.getExecution(id)).state).toBe('awaiting_input');
    expect(await codeOf(cluster.client.respond(id, actionId, { approved: true }))).toBe('VALIDATION_ERROR');
    await cluster.client.respond(id, actionId, { value: 0 });
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('0');
    const events = await readEveryWay(id);
    expect(events.find((event) => event.type === 'action.responded')?.data).toEqual({ actionId });
  });

  it('lists its artifacts, each with one creation event, in order', async () => {
    const artifact = (name: string) => ({ artifact: { name, mediaType: 'text/plain', uri: `file:///${name}` } });
    const { id } = await cluster.run([artifact('one'), artifact('two'), { say: 'x' }]);
    await cluster.client.waitForTerminal(id);
    const artifacts = await cluster.client.artifacts(id);
    expect(artifacts.map((each) => each.name)).toEqual(['one', 'two']);
    const created = (await readEveryWay(id)).filter((event) => event.type === 'artifact.created');
    expect(created.map((event) => event.data)).toEqual(artifacts);
  });

  it('refuses a second artifact with the same id as PROVIDER_ERROR', async () => {
    const artifact = { artifact: { id: 'a1', name: 'one', mediaType: 'text/plain' } };
    const { id } = await cluster.run([artifact, artifact]);
    expect((await cluster.client.waitForTerminal(id)).error?.code).toBe('PROVIDER_ERROR');
    expect(await cluster.client.artifacts(id)).toHaveLength(1);
    await readEveryWay(id);
  });

  it('fails with the provider’s message', async () => {
    const { id } = await cluster.run([{ say: 'so far' }, { fail: 'the disk is full' }]);
    const execution = await cluster.client.waitForTerminal(id);
    expect(execution).toMatchObject({
      state: 'failed',
      error: { code: 'PROVIDER_ERROR', message: 'the disk is full' },
    });
    expect((await readEveryWay(id)).at(-1)?.data).toEqual({ code: 'PROVIDER_ERROR', message: 'the disk is full' });
  });

  it('suspends for an approval, holds nothing meanwhile, and goes on with the answer', async () => {
    const { id } = await cluster.run([{ say: 'a' }, { approve: { title: 'ok?' } }, { say: 'b' }], { suspend: true });
    const { id: actionId } = await cluster.action(id);
    await expect
      .poll(async () => (await cluster.handle(id).describe()).raw.pendingActivities?.length ?? 0, { timeout: 5_000 })
      .toBe(0);
    await cluster.client.respond(id, actionId, { approved: false });
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('arejectedb');
    await readEveryWay(id);
  });

  it('answers late answers by what became of the action', async () => {
    const { id } = await cluster.run([{ approve: { title: 'ok?' } }]);
    const { id: actionId } = await cluster.action(id);
    const { responseId, approved } = { responseId: 'mine', approved: true };
    await cluster.client.respond(id, actionId, { approved }, { responseId });
    // Repeating the answer by its id gives its first outcome; another one comes too late, also after the end.
    await cluster.client.respond(id, actionId, { approved }, { responseId });
    expect(await codeOf(cluster.client.respond(id, actionId, { approved: false }))).toBe('ACTION_ALREADY_RESOLVED');
    await cluster.client.waitForTerminal(id);
    await cluster.client.respond(id, actionId, { approved }, { responseId });
    const late = await cluster.client.respond(id, actionId, { approved: false }).catch((error: HoldfastError) => error);
    expect(late).toMatchObject({ code: 'ACTION_ALREADY_RESOLVED', details: { how: 'answered', approved: true } });
    expect((late as HoldfastError).details?.resolvedAt).toMatch(/^\d{4}-/);
    expect(await codeOf(cluster.client.respond(id, 'act_never', { approved }))).toBe('ACTION_NOT_FOUND');
    await readEveryWay(id);
  });

  it('is cancelled while it runs, cooperatively, with its reason', async () => {
    const { id } = await cluster.run([{ say: 'x' }, { hang: true }]);
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    await cluster.client.cancel(id, 'not needed');
    expect((await cluster.client.waitForTerminal(id)).state).toBe('cancelled');
    expect((await readEveryWay(id)).at(-1)?.data).toEqual({ reason: 'not needed', confirmation: 'cooperative' });
  });

  it.each([
    ['awaiting_approval', [{ approve: { title: 'ok?' } }], false, 'cooperative'],
    ['awaiting_input', [{ ask: { title: 'what?' } }], false, 'cooperative'],
    ['awaiting_approval', [{ approve: { title: 'ok?' } }], true, 'not_running'],
  ] as const)('is cancelled while %s', async (state, steps, suspend, confirmation) => {
    const { id } = await cluster.run(steps, { suspend });
    const { id: actionId } = await cluster.action(id);
    expect((await cluster.client.getExecution(id)).state).toBe(state);
    if (suspend) await idle(id);
    await cluster.client.cancel(id);
    const execution = await cluster.client.waitForTerminal(id);
    expect(execution).toMatchObject({ state: 'cancelled', pendingActions: [] });
    const events = await readEveryWay(id);
    expect(events.at(-1)?.data).toEqual({ confirmation });
    expect(types(events)).not.toContain('action.responded');
    expect(await codeOf(cluster.client.respond(id, actionId, { approved: true, value: 1 }))).toBe('INVALID_STATE');
  });

  it('is cancelled once by five concurrent cancels, and a later one changes nothing', async () => {
    const { id } = await cluster.run([{ hang: true }]);
    await cluster.seen(id, (event) => event.type === 'run.started');
    await Promise.all(['a', 'b', 'c', 'd', 'e'].map((reason) => cluster.client.cancel(id, reason)));
    await cluster.client.waitForTerminal(id);
    const before = await readEveryWay(id);
    expect(before.filter((event) => event.type === 'run.cancelled')).toHaveLength(1);
    expect((await cluster.client.cancel(id, 'again')).state).toBe('cancelled');
    expect(await cluster.log(id)).toEqual(before);
  });

  it('is reported as abandoned when its code ignores the abort', async () => {
    const { id } = await cluster.run([{ ignoreCancel: true }, { say: 'x' }, { wait: 8_000 }, { say: 'too late' }]);
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    await cluster.client.cancel(id);
    await cluster.client.waitForTerminal(id, { timeoutMs: 7_000 });
    const events = await readEveryWay(id);
    expect(events.at(-1)?.data).toEqual({ confirmation: 'abandoned' });
  });

  it('times out while it runs, while it waits, and while it is suspended; a late answer is INVALID_STATE', async () => {
    const timeoutSeconds = 1;
    const live = await cluster.run([{ hang: true }], { timeoutSeconds });
    const waiting = await cluster.run([{ approve: { title: 'ok?' } }], { timeoutSeconds });
    const suspended = await cluster.run([{ approve: { title: 'ok?' } }], { timeoutSeconds, suspend: true });
    const actions = [await cluster.action(waiting.id), await cluster.action(suspended.id)];
    for (const { id } of [live, waiting, suspended]) {
      const execution = await cluster.client.waitForTerminal(id);
      expect(execution).toMatchObject({ state: 'failed', error: { code: 'EXECUTION_TIMEOUT' }, pendingActions: [] });
      await readEveryWay(id);
    }
    const late = { approved: true };
    expect(await codeOf(cluster.client.respond(waiting.id, actions[0]!.id, late))).toBe('INVALID_STATE');
    expect(await codeOf(cluster.client.respond(suspended.id, actions[1]!.id, late))).toBe('INVALID_STATE');
  });
});

async function idle(executionId: string): Promise<void> {
  await expect
    .poll(async () => (await cluster.handle(executionId).describe()).raw.pendingActivities?.length ?? 0, {
      timeout: 5_000,
    })
    .toBe(0);
}
