/** Actions that expire, that say what was decided on and by whom, and that ask for a value of a certain shape. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HoldfastError } from '../../protocol/errors.js';
import { eventSchema, type HoldfastEvent } from '../../protocol/event.js';
import { canonicalJson } from '../../protocol/json.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { Cluster, isActionRequired, PATIENT_POOL, types } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';
import { chance } from '../support/seed.js';

let cluster: Cluster;

beforeAll(async () => {
  // Long histories come soon, so that suspended executions roll over, too.
  cluster = await Cluster.start({ dynamicConfig: { 'limit.historyCount.suggestContinueAsNew': 60 } });
  await cluster.worker({ providers: [scriptedProvider()], pool: PATIENT_POOL, rollover: { batches: 4 } });
});

afterAll(async () => {
  await cluster.stopCompared();
});

async function codeOf(promise: Promise<unknown>): Promise<string> {
  return await promise.then(
    () => 'accepted',
    (error: HoldfastError) => error.code,
  );
}

const responded = (events: readonly HoldfastEvent[]) =>
  events.flatMap((event) => (event.type === 'action.responded' ? [event.data] : []));

async function rolledOver(executionId: string): Promise<boolean> {
  const { raw } = await cluster.handle(executionId).describe();
  return raw.workflowExecutionInfo?.firstRunId !== raw.workflowExecutionInfo?.execution?.runId;
}

describe('an action that nobody answers in time', () => {
  it.each([
    ['a live approval', { approve: { title: 'ok?', timeoutSeconds: 1 } }, false, { approved: false }],
    ['a live input', { ask: { title: 'what?', timeoutSeconds: 1 } }, false, {}],
    ['a suspended approval', { approve: { title: 'ok?', timeoutSeconds: 1 } }, true, { approved: false }],
  ])('expires, and the provider goes on with that: %s', async (_, step, suspend, approved) => {
    const { id } = await cluster.run([step, { say: '!' }], { suspend });
    const action = await cluster.seen(id, isActionRequired);
    const { expiresAt, createdAt } = action.data;
    expect(Date.parse(expiresAt!) - Date.parse(createdAt)).toBeGreaterThanOrEqual(1000);
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('expired!');
    const events = await cluster.log(id);
    for (const event of events) eventSchema.parse(event);
    expect(responded(events)).toEqual([{ actionId: action.data.id, ...approved, expired: true }]);
    const late = await cluster.client.respond(id, action.data.id, { approved: true, value: 1 }).catch((error) => error);
    expect(late).toMatchObject({ code: 'ACTION_ALREADY_RESOLVED', details: { how: 'expired', ...approved } });
    expect(late.details.resolvedAt >= expiresAt!.slice(0, 19)).toBe(true);
  });

  it.each([false, true])(
    'fails the execution when it says so, and the provider is stopped (suspended: %s)',
    async (suspend) => {
      const approve = { title: 'ok?', timeoutSeconds: 1, onExpiry: 'fail' };
      const { id } = await cluster.run([{ approve }, { say: 'never' }], { suspend });
      const { id: actionId } = await cluster.action(id);
      const execution = await cluster.client.waitForTerminal(id);
      expect(execution).toMatchObject({ state: 'failed', error: { code: 'EXECUTION_TIMEOUT' }, pendingActions: [] });
      expect(execution.error?.message).toContain(actionId);
      const events = await cluster.log(id);
      expect(types(events).slice(-2)).toEqual(['action.responded', 'run.failed']);
      expect(await codeOf(cluster.client.respond(id, actionId, { approved: true }))).toBe('ACTION_ALREADY_RESOLVED');
    },
  );

  it('expires in the next run when its run was continued as new while it was open', async () => {
    const { id } = await cluster.run([
      { say: 'abcdefgh', chunk: 1, everyMs: 30 },
      { approve: { title: 'ok?', timeoutSeconds: 6 } },
    ]);
    await cluster.action(id);
    await expect.poll(() => rolledOver(id), { timeout: 20_000 }).toBe(true);
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('abcdefghexpired');
    expectWhole(await cluster.log(id));
  });

  it('expires in the next run of an execution that was suspended, too', async () => {
    const { id } = await cluster.run([{ approve: { title: 'ok?', timeoutSeconds: 12 } }], { suspend: true });
    const { id: actionId } = await cluster.action(id);
    // Answers that do not fit make its history long; it waits on.
    for (let i = 0; i < 40 && !(await rolledOver(id)); i++)
      await cluster.handle(id).signal('respond', { responseId: `resp_${i}`, actionId, response: {} });
    await expect.poll(() => rolledOver(id), { timeout: 10_000 }).toBe(true);
    expect((await cluster.client.getExecution(id)).state).toBe('awaiting_approval');
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('expired');
  });

  it('and an answer in the same moment: one counts, and everybody is told the same', async () => {
    const random = chance('expiry');
    const { id: conversationId } = await cluster.client.createConversation();
    const tally = { answered: 0, expired: 0 };
    const once = async (suspend: boolean): Promise<void> => {
      const steps = [{ approve: { title: 'ok?', timeoutSeconds: 1 } }];
      const { id } = await cluster.run(steps, { conversationId, suspend });
      const action = await cluster.seen(id, isActionRequired);
      const wait = Date.parse(action.data.expiresAt!) - Date.now() + random.whole(400) - 250;
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, wait)));
      const code = await codeOf(cluster.client.respond(id, action.data.id, { approved: true }));
      const { finalOutput } = await cluster.client.waitForTerminal(id);
      const [told, ...more] = responded(await cluster.log(id));
      expect(more).toEqual([]);
      const expired = told?.expired === true;
      expect(code).toBe(expired ? 'ACTION_ALREADY_RESOLVED' : 'accepted');
      expect(finalOutput).toBe(expired ? 'expired' : 'approved');
      tally[expired ? 'expired' : 'answered'] += 1;
    };
    await Promise.all(Array.from({ length: 16 }, (_, i) => once(i % 2 === 0)));
    expect(tally.answered + tally.expired).toBe(16);
  });

  it('stands with its time in the inbox and in lists', async () => {
    const { id } = await cluster.run([{ approve: { title: 'ok?', timeoutSeconds: 600 } }]);
    const { expiresAt } = (await cluster.seen(id, isActionRequired)).data;
    const inbox = async () =>
      (await cluster.client.listPendingActions()).actions.find((each) => each.executionId === id)?.expiresAt;
    await expect.poll(inbox, { timeout: 15_000 }).toBe(expiresAt);
    await cluster.client.cancel(id);
  });
});

describe('an answer', () => {
  const payload = { command: 'rm -r build', cwd: '/srv/shop' };

  it('to another payload than the one expected is INVALID_STATE, and the action stays open', async () => {
    const { id } = await cluster.run([{ approve: { title: 'Run?', payload } }]);
    const { id: actionId } = await cluster.action(id);
    const [action] = (await cluster.client.getExecution(id)).pendingActions;
    const digest = createHash('sha256').update(canonicalJson(payload)).digest('hex');
    expect(action?.digest).toBe(digest);
    const other = { approved: true, expectedDigest: digest.replace(/^./, (c) => (c === '0' ? '1' : '0')) };
    expect(await codeOf(cluster.client.respond(id, actionId, other))).toBe('INVALID_STATE');
    expect((await cluster.client.getExecution(id)).state).toBe('awaiting_approval');
    await cluster.client.respond(id, actionId, { approved: true, expectedDigest: digest });
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('approved');
  });

  it('tells the log who gave it when it asks for that, and only then', async () => {
    const metadata = { by: 'ada', why: 'the build folder is stale' };
    const { id } = await cluster.run([{ approve: { title: 'one' } }, { approve: { title: 'two' } }]);
    const first = await cluster.action(id);
    await cluster.client.respond(id, first.id, { approved: true, metadata, audit: true });
    const second = await cluster.action(id, first.sequence);
    await cluster.client.respond(id, second.id, { approved: false, metadata });
    await cluster.client.waitForTerminal(id);
    expect(responded(await cluster.log(id))).toEqual([
      { actionId: first.id, approved: true, metadata },
      { actionId: second.id, approved: false },
    ]);
  });

  it('whose value does not fit the schema is VALIDATION_ERROR, whoever sends it, and the action stays open', async () => {
    const valueSchema = { type: 'object', properties: { port: { type: 'integer' } }, required: ['port'] };
    const { id } = await cluster.run([{ ask: { title: 'Which port?', valueSchema } }]);
    const { id: actionId } = await cluster.action(id);
    const wrong = await cluster.client.respond(id, actionId, { value: { port: 'http' } }).catch((error) => error);
    expect(wrong).toMatchObject({
      code: 'VALIDATION_ERROR',
      message: expect.stringContaining('value.port: must be integer'),
    });
    // As an operator sends it, past every client.
    await cluster.handle(id).signal('respond', { responseId: 'op', actionId, response: { value: {} } });
    expect(await codeOf(cluster.client.respond(id, actionId, { value: [] }))).toBe('VALIDATION_ERROR');
    expect((await cluster.client.getExecution(id)).pendingActions[0]).toMatchObject({ id: actionId, valueSchema });
    await cluster.client.respond(id, actionId, { value: { port: 80 } });
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('{"port":80}');
  });

  it.each([
    ['a schema that is none', { ask: { title: 'x', valueSchema: { type: 'text' } } }, /valueSchema\.type/],
    ['a keyword that is not taken', { ask: { title: 'x', valueSchema: { if: {} } } }, /valueSchema\.if/],
    ['a time that is none', { approve: { title: 'x', timeoutSeconds: -1 } }, /timeoutSeconds/],
    ['an end without a time', { approve: { title: 'x', onExpiry: 'fail' } }, /onExpiry/],
  ])('is never asked for with %s: PROVIDER_ERROR', async (_, step, message) => {
    const { id } = await cluster.run([step]);
    const { error } = await cluster.client.waitForTerminal(id);
    expect(error).toMatchObject({ code: 'PROVIDER_ERROR', message: expect.stringMatching(message) });
    expect(types(await cluster.log(id))).not.toContain('action.required');
  });
});

it('preferred capabilities never fail a start, and run.started tells what it got', async () => {
  const wanted = ['action.approval', 'extension.mcp', 'own.thing'];
  const { id } = await cluster.run([{ say: 'x' }], {
    requiredCapabilities: ['execution.cancel'],
    preferredCapabilities: wanted,
  });
  const started = await cluster.seen(id, (event) => event.type === 'run.started');
  expect(started.data).toMatchObject({
    capabilities: { 'execution.cancel': 'native', 'extension.mcp': 'unsupported', 'own.thing': 'unsupported' },
  });
  expect(Object.keys((started.data as { capabilities: object }).capabilities)).toHaveLength(4);
  expect((await cluster.client.waitForTerminal(id)).state).toBe('succeeded');
});

it('usage that the provider reports stands in run.completed and in the execution', async () => {
  const usage = { inputTokens: 1200, outputTokens: 34, costUsd: 0.012 };
  const { id } = await cluster.run([{ say: 'x' }, { usage }]);
  expect((await cluster.client.waitForTerminal(id)).usage).toEqual(usage);
  const events = await cluster.log(id);
  expect(events.at(-1)).toMatchObject({ type: 'run.completed', data: { finalOutput: 'x', usage } });
  eventSchema.parse(events.at(-1));
});

it('usage that was reported before the end stands also when it fails, is cancelled, times out or is terminated', async () => {
  const [early, usage] = [{ inputTokens: 7 }, { inputTokens: 12, costUsd: 0.5 }];
  const steps = [{ usage: early }, { usage }, { say: 'x' }];
  const [failed, cancelled, late, terminated] = await Promise.all([
    cluster.run([...steps, { fail: 'no' }]),
    cluster.run([...steps, { hang: true }]),
    cluster.run([...steps, { hang: true }], { timeoutSeconds: 2 }),
    cluster.run([...steps, { hang: true }]),
  ]);
  const said = ({ type }: { type: string }) => type === 'output.text.delta';
  await Promise.all([cancelled, terminated].map(({ id }) => cluster.seen(id, said)));
  // As far as it is known while it runs.
  expect((await cluster.client.getExecution(cancelled.id)).usage).toEqual(usage);
  await cluster.client.cancel(cancelled.id);
  await cluster.handle(terminated.id).terminate();
  const ends = { failed, cancelled, late, terminated };
  for (const [how, { id }] of Object.entries(ends)) {
    const execution = await cluster.client.waitForTerminal(id);
    expect([how, execution.usage]).toEqual([how, usage]);
    const last = (await cluster.log(id)).at(-1);
    eventSchema.parse(last);
    expect([how, last?.data]).toMatchObject([how, { usage }]);
  }
});
