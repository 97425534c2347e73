import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HoldfastClient } from '../../client/client.js';
import { eventSchema, type HoldfastEvent } from '../../protocol/event.js';
import { executionSchema } from '../../protocol/execution.js';
import { WORKFLOW_QUEUE } from '../../workflows/messages.js';
import { Cluster, types } from '../support/cluster.js';
import { codeOf, refusal } from './refusal.js';

/** A worker ran, left a few executions behind, and is gone. No other comes before the very end. */
let cluster: Cluster;
let client: HoldfastClient;
let finished: { id: string; live: HoldfastEvent[] };
/** Suspended for an approval. */
const suspended: { id: string; actionId: string }[] = [];

beforeAll(async () => {
  cluster = await Cluster.start();
  client = cluster.client;
  const worker = await cluster.worker({ rollover: { batches: 4 } });
  const { id } = await cluster.run([
    { say: 'a long answer', chunk: 1, everyMs: 30 },
    { artifact: { name: 'report', mediaType: 'text/plain' } },
  ]);
  for (let i = 0; i < 3; i++) {
    const waits = await cluster.run([{ say: 'before' }, { approve: { title: 'ok?' } }], { suspend: true });
    suspended.push({ id: waits.id, actionId: (await cluster.action(waits.id)).id });
  }
  await client.waitForTerminal(id);
  finished = { id, live: await cluster.log(id) };
  await worker.shutdown({ drainMs: 10_000 });
});

afterAll(async () => {
  // The cross-check by query is the one thing that needs a worker.
  await cluster.worker();
  for (const { id } of suspended) await client.waitForTerminal(id);
  const compared = await cluster.stopCompared();
  expect(compared.equal).toBeGreaterThan(3);
});

/** The log, read afresh in every way there is; all must agree. */
async function read(id: string): Promise<HoldfastEvent[]> {
  const other = await cluster.anotherClient();
  const ways = [
    await cluster.log(id),
    [...(await client.listEvents(id)).events],
    [...(await other.listEvents(id)).events],
    await collected(other, id),
    await cluster.log(id),
  ];
  for (const way of ways) expect(way).toEqual(ways[0]);
  for (const [i, event] of ways[0]!.entries()) {
    eventSchema.parse(event);
    expect(event.sequence).toBe(i + 1);
  }
  return ways[0]!;
}

async function collected(of: HoldfastClient, id: string): Promise<HoldfastEvent[]> {
  const events: HoldfastEvent[] = [];
  for await (const event of of.events(id)) events.push(event);
  return events;
}

describe('with no worker running', () => {
  it('a finished execution reads as it did', async () => {
    const { id, live } = finished;
    expect(await read(id)).toEqual(live);
    const execution = executionSchema.parse(await client.getExecution(id));
    expect(execution).toMatchObject({ state: 'succeeded', finalOutput: 'a long answer' });
    expect(await client.waitForTerminal(id)).toEqual(execution);
    expect((await client.artifacts(id)).map((artifact) => artifact.name)).toEqual(['report']);
    expect(await cluster.log(id, 5)).toEqual(live.slice(5));
    expect((await client.getConversation(execution.conversationId)).id).toBe(execution.conversationId);
  });

  it('the runtime still says which providers there are', async () => {
    const { providers } = await client.describeRuntime();
    expect(providers.map((provider) => provider.id)).toEqual(['scripted']);
  });

  it('an execution that no worker has ever seen is there, queued, and its log waits', async () => {
    const execution = await cluster.run([{ say: 'x' }], { metadata: { seen: false } });
    expect(execution).toMatchObject({ state: 'queued', input: 'go', pendingActions: [], metadata: { seen: false } });
    expect(executionSchema.parse(await client.getExecution(execution.id))).toEqual(execution);
    const { events } = await client.listEvents(execution.id);
    expect(types(events)).toEqual(['run.queued']);
    const leaving = new AbortController();
    const seen: HoldfastEvent[] = [];
    const following = (async () => {
      for await (const event of client.events(execution.id, { signal: leaving.signal })) seen.push(event);
    })();
    await expect.poll(() => seen.length).toBe(1);
    expect(await Promise.race([following.then(() => 'ended'), delay(500, 'waits')])).toBe('waits');
    leaving.abort();
    await following;
    expect(seen).toEqual(events);
    expect(await refusal(client.waitForTerminal(execution.id, { timeoutMs: 100 }))).toMatchObject({
      code: 'RUNTIME_UNAVAILABLE',
      details: { state: 'queued' },
    });
    expect(await codeOf(client.respond(execution.id, 'act_none', { approved: true }, { timeoutMs: 2_000 }))).toBe(
      'ACTION_NOT_FOUND',
    );
  });

  it('an answer is accepted, durably, and a second one comes too late', async () => {
    const { id, actionId } = suspended[0]!;
    expect(await client.getExecution(id)).toMatchObject({
      state: 'awaiting_approval',
      pendingActions: [{ id: actionId, title: 'ok?' }],
    });
    expect(await codeOf(client.respond(id, actionId, {}))).toBe('VALIDATION_ERROR');
    await client.respond(id, actionId, { approved: true }, { responseId: 'first' });
    await client.respond(id, actionId, { approved: true }, { responseId: 'first' });
    expect(await codeOf(client.respond(id, actionId, { approved: false }))).toBe('ACTION_ALREADY_RESOLVED');
    expect(await client.getExecution(id)).toMatchObject({ state: 'running', pendingActions: [] });
    expect(types((await client.listEvents(id)).events).at(-1)).toBe('action.responded');
  });

  it('a cancel is on record at once, and confirmed when a worker comes', async () => {
    const { id } = await cluster.run([{ say: 'x' }]);
    expect(await client.cancel(id, 'changed my mind')).toMatchObject({ state: 'cancelling' });
    expect(await client.getExecution(id)).toMatchObject({ state: 'cancelling' });
    expect(types((await client.listEvents(id)).events)).toEqual(['run.queued']);
    suspended.push({ id, actionId: 'act_none' });
  });
});

describe('an execution that was terminated through the server', () => {
  it('ends as TERMINATED for every reader alike, one past its last event, with its action withdrawn', async () => {
    const { id, actionId } = suspended[1]!;
    const before = (await client.listEvents(id)).events;
    const waiting = client.waitForTerminal(id);
    await cluster.handle(id).terminate('enough');
    const execution = await waiting;
    expect(execution).toMatchObject({ state: 'failed', error: { code: 'TERMINATED' }, pendingActions: [] });
    const log = await read(id);
    expect(log.slice(0, -1)).toEqual(before);
    expect(log.at(-1)).toMatchObject({ sequence: before.length + 1, type: 'run.failed', data: { code: 'TERMINATED' } });
    expect(await client.getExecution(id)).toEqual(execution);
    expect(await codeOf(client.respond(id, actionId, { approved: true }))).toBe('INVALID_STATE');
    expect(await client.cancel(id, 'too late')).toEqual(execution);
    expect(await read(id)).toEqual(log);
  });

  it('while queued: the same, and nothing ever started', async () => {
    const { id } = await cluster.run([{ say: 'x' }]);
    await cluster.handle(id).terminate();
    expect(types(await read(id))).toEqual(['run.queued', 'run.failed']);
    const execution = await client.getExecution(id);
    expect(execution).toMatchObject({ state: 'failed', error: { code: 'TERMINATED' } });
    expect(execution.startedAt).toBeUndefined();
    expect(execution.endedAt).toBeDefined();
  });

  it('while cancelling: cancelled, with its host lost and the reason kept', async () => {
    const { id, actionId } = suspended[2]!;
    await cluster.handle(id).signal('cancel', { reason: 'not needed' });
    expect(await client.getExecution(id)).toMatchObject({ state: 'cancelling', pendingActions: [] });
    expect(await codeOf(client.respond(id, actionId, { approved: true }))).toBe('INVALID_STATE');
    const { length } = (await client.listEvents(id)).events;
    await cluster.handle(id).terminate();
    const log = await read(id);
    expect(log.at(-1)).toMatchObject({
      sequence: length + 1,
      type: 'run.cancelled',
      data: { reason: 'not needed', confirmation: 'lost' },
    });
    expect((await client.getExecution(id)).state).toBe('cancelled');
    expect(await codeOf(client.respond(id, actionId, { approved: true }))).toBe('INVALID_STATE');
    expect(await codeOf(client.respond(id, 'act_never', { approved: true }))).toBe('ACTION_NOT_FOUND');
  });

  it('by a run timeout: sealed just like that', async () => {
    const { id: model } = await cluster.run([{ say: 'x' }]);
    const [start] = await startArguments(model);
    const id = `${model.slice(0, -1)}1`;
    await cluster.temporal.workflow.start('execution', {
      workflowId: `default.${id}`,
      taskQueue: WORKFLOW_QUEUE,
      workflowRunTimeout: 1_000,
      args: [{ ...start, identity: { ...start!.identity, executionId: id } }],
    });
    expect(await client.waitForTerminal(id)).toMatchObject({ state: 'failed', error: { code: 'TERMINATED' } });
    expect(types(await read(id))).toEqual(['run.queued', 'run.failed']);
    await cluster.handle(model).terminate();
  });
});

async function startArguments(id: string): Promise<{ identity: object }[]> {
  const { events } = await cluster.handle(id).fetchHistory();
  const payloads = events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [];
  return payloads.map((payload) => JSON.parse(Buffer.from(payload.data ?? []).toString()));
}
