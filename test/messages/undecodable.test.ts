import { DefaultLogger, Runtime } from '@temporalio/worker';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { announceProviders } from '../../worker/announce.js';
import type { HoldfastWorker } from '../../worker/worker.js';
import { ADMIT_UPDATE, CATALOG_ANNOUNCE, CATALOG_WORKFLOW_ID, EVENTS_QUERY } from '../../workflows/messages.js';
import { Cluster, QUICK_POOL, types } from '../support/cluster.js';
import { json, payload, Raw, type RawPayload, UNDECODABLE_PAYLOADS } from './raw.js';

/** Each message that is dropped is a warning, and here are hundreds. The runtime goes with the last worker. */
function quiet(): void {
  Runtime.install({ shutdownSignals: [], logger: new DefaultLogger('ERROR') });
}

let cluster: Cluster;
let worker: HoldfastWorker;
let raw: Raw;

beforeAll(async () => {
  cluster = await Cluster.start();
  quiet();
  worker = await cluster.worker();
  raw = new Raw(cluster.temporal);
});

afterAll(async () => {
  const compared = await cluster.compare();
  await cluster.stop();
  // What readers dropped and what the workflow dropped is the same.
  expect(compared.different).toEqual([]);
  expect(compared.divergences).toBe(0);
  expect(compared.notCompared).toEqual([]);
  expect(compared.equal).toBeGreaterThan(5);
});

const NAMES = ['respond', 'append', 'announce', 'turn', 'nobody.knows.this', '__temporal_x', '__stack_trace'];

function workflowId(id: string): string {
  return `default.${id}`;
}

async function waiting(): Promise<{ id: string; conversationId: string; actionId: string }> {
  const { id, conversationId } = await cluster.run([{ say: 'before ' }, { approve: { title: 'ok?' } }, { say: '!' }]);
  return { id, conversationId, actionId: (await cluster.action(id)).id };
}

/** It answers queries and goes on to its end as if nothing had happened. */
async function goesOn(execution: { id: string; actionId: string }): Promise<void> {
  const { id, actionId } = execution;
  expect(await cluster.client.getExecution(id)).toMatchObject({
    state: 'awaiting_approval',
    pendingActions: [{ id: actionId }],
  });
  await cluster.client.respond(id, actionId, { approved: true });
  const end = await cluster.client.waitForTerminal(id, { timeoutMs: 15_000 });
  expect(end).toMatchObject({ state: 'succeeded', finalOutput: 'before approved!' });
}

async function sendAll(id: string): Promise<void> {
  const payloads = Object.values(UNDECODABLE_PAYLOADS);
  await Promise.all(NAMES.flatMap((name) => payloads.map((bad) => raw.signal(workflowId(id), name, [bad]))));
}

describe('a message that nobody can decode is dropped', () => {
  it('by an execution, whatever its name and its payload', async () => {
    const execution = await waiting();
    const id = workflowId(execution.id);
    const answer = { responseId: 'r1', actionId: execution.actionId, response: { approved: false } };
    for (const [kind, bad] of Object.entries(UNDECODABLE_PAYLOADS)) {
      const lists = [[bad], [json({ approved: true }), bad]];
      await Promise.all(NAMES.flatMap((name) => lists.map((list) => raw.signal(id, name, list))));
      // Nor does one of the right form count, when a part of it cannot be read.
      await raw.signal(id, 'respond', [json(answer), bad]);
      for (const name of ['respond', '__temporal_x'])
        expect([kind, typeof (await raw.update(id, name, [bad]))]).toEqual([kind, 'string']);
      await raw.query(id, EVENTS_QUERY, [bad, bad]).catch(() => undefined);
      expect([kind, typeof (await raw.query(id, EVENTS_QUERY))]).toEqual([kind, 'object']);
    }
    await goesOn(execution);
  });

  it('by an execution that no worker has seen yet', async () => {
    const before = await cluster.client.createConversation();
    await worker.shutdown({ drainMs: 0 });
    const { id } = await cluster.run([{ say: 'before ' }, { approve: { title: 'ok?' } }, { say: '!' }], {
      conversationId: before.id,
    });
    await sendAll(id);
    quiet();
    worker = await cluster.worker();
    await goesOn({ id, actionId: (await cluster.action(id)).id });
  });

  it('and the execution can still be cancelled', async () => {
    const { id } = await waiting();
    await sendAll(id);
    await cluster.client.cancel(id, 'enough');
    const end = await cluster.client.waitForTerminal(id, { timeoutMs: 15_000 });
    expect(end.state).toBe('cancelled');
    expect((await cluster.log(id)).at(-1)?.data).toMatchObject({ reason: 'enough', confirmation: 'cooperative' });
  });

  it('by a conversation, which goes on', async () => {
    const { id: conversationId } = await cluster.client.createConversation({ metadata: { kept: true } });
    for (const bad of Object.values(UNDECODABLE_PAYLOADS)) {
      const names = ['enqueue', 'ready', 'release', 'gone', ...NAMES];
      await Promise.all(names.map((name) => raw.signal(workflowId(conversationId), name, [bad])));
      for (const name of [ADMIT_UPDATE, 'nobody.knows.this', '__temporal_x'])
        expect(await raw.update(workflowId(conversationId), name, [bad])).toBeDefined();
      await raw.query(workflowId(conversationId), 'nobody.knows.this', [bad]).catch(() => undefined);
    }
    expect(await raw.query(workflowId(conversationId), '__temporal_workflow_metadata')).toBeDefined();
    expect((await cluster.client.getConversation(conversationId)).metadata).toEqual({ kept: true });
    const { id } = await cluster.run([{ say: 'x' }], { conversationId });
    expect((await cluster.client.waitForTerminal(id)).state).toBe('succeeded');
  });

  it('by the catalog, which goes on', async () => {
    for (const bad of Object.values(UNDECODABLE_PAYLOADS)) {
      await Promise.all([CATALOG_ANNOUNCE, ...NAMES].map((name) => raw.signal(CATALOG_WORKFLOW_ID, name, [bad])));
      expect(await raw.update(CATALOG_WORKFLOW_ID, CATALOG_ANNOUNCE, [bad])).toBeDefined();
    }
    // Readable, but no announcement.
    const { manifest } = scriptedProvider({ id: 'another' });
    for (const value of [null, 'x', 5, [], {}, { manifest: {} }, { manifest, taskQueue: 5 }])
      await raw.signal(CATALOG_WORKFLOW_ID, CATALOG_ANNOUNCE, [json(value)]);
    await raw.signal(CATALOG_WORKFLOW_ID, CATALOG_ANNOUNCE);
    for (const id of ['__proto__', 'constructor'])
      await raw.signal(CATALOG_WORKFLOW_ID, CATALOG_ANNOUNCE, [
        json({ manifest: { ...manifest, id }, taskQueue: 'q' }),
      ]);
    expect(await raw.query(CATALOG_WORKFLOW_ID, '__temporal_workflow_metadata')).toBeDefined();
    await announceProviders(cluster.temporal, [{ manifest, taskQueue: 'q', pool: QUICK_POOL }]);
    const { providers } = await cluster.client.describeRuntime();
    const ids = providers.map((provider) => provider.id);
    expect(ids.sort()).toEqual(['__proto__', 'another', 'constructor', 'scripted']);
    expect(providers).toContainEqual(manifest);
    await goesOn(await waiting());
  });

  it('and so is what would make the catalog too large for a memo: all that is in it stays', async () => {
    const { manifest } = scriptedProvider({ id: 'wordy' });
    for (let i = 0; i < 20; i++) {
      const large = { ...manifest, id: `wordy-${i}`, metadata: { about: 'x'.repeat(120 * 1024) } };
      await raw.signal(CATALOG_WORKFLOW_ID, CATALOG_ANNOUNCE, [json({ manifest: large, taskQueue: 'q' })]);
    }
    const known = async () => (await cluster.client.describeRuntime()).providers.map((provider) => provider.id);
    await expect.poll(known, { timeout: 15_000 }).toContain('wordy-11');
    const status = await cluster.temporal.workflow.getHandle(CATALOG_WORKFLOW_ID).describe();
    expect(status.status.name).toBe('RUNNING');
    expect(await known()).toContain('scripted');
    expect(await known()).not.toContain('wordy-19');
    await goesOn(await waiting());
  });
});

describe('a message that can be decoded and means nothing', () => {
  const deep = `${'['.repeat(20_000)}${']'.repeat(20_000)}`;

  it('changes nothing, whatever its name', async () => {
    const meaningless: Record<string, RawPayload[]> = {
      'no argument': [],
      null: [json(null)],
      'a text': [json('x')],
      'a number': [json(5)],
      'a list': [json([{}])],
      'an empty object': [json({})],
      'the wrong types': [json({ token: 1, batch: 'x', items: {}, actionId: [], responseId: {}, attempt: '1' })],
      'nesting of 20,000 levels': [payload('json/plain', deep)],
      'a key __proto__': [payload('json/plain', '{"__proto__": {"responseId": "r", "actionId": "a"}}')],
      'the mark of an undecodable one': [json('\u0000holdfast:undecodable')],
      undefined: [payload('binary/null', '')],
      'fifty arguments': Array.from({ length: 50 }, () => json({})),
    };
    const execution = await waiting();
    const before = await cluster.client.getExecution(execution.id);
    for (const [kind, payloads] of Object.entries(meaningless)) {
      await Promise.all(NAMES.map((name) => raw.signal(workflowId(execution.id), name, payloads)));
      expect([kind, typeof (await raw.query(workflowId(execution.id), EVENTS_QUERY))]).toEqual([kind, 'object']);
      expect([kind, await cluster.client.getExecution(execution.id)]).toEqual([kind, before]);
    }
    await goesOn(execution);
  });

  it('is told what is wrong with it only if it asks: a deep answer is refused, and the action stays open', async () => {
    const execution = await waiting();
    const answer = `{"call": "c", "responseId": "r", "actionId": "${execution.actionId}", "response": ${deep}}`;
    await raw.signal(workflowId(execution.id), 'respond', [payload('json/plain', answer)]);
    const value = `{"call": "c", "responseId": "r", "actionId": "${execution.actionId}", "response": {"value": ${deep}}}`;
    await raw.signal(workflowId(execution.id), 'respond', [payload('json/plain', value)]);
    await goesOn(execution);
  });
});

describe('an operator, from the Temporal UI or command line', () => {
  it('cancels with the signal alone, whatever its argument', async () => {
    const cancels: [RawPayload[] | undefined, object][] = [
      [undefined, {}],
      [[], {}],
      [[json(null)], {}],
      [[json({})], {}],
      [[json({ reason: 'by hand' })], { reason: 'by hand' }],
      [[json('by hand')], { reason: 'by hand' }],
      [[json({ reason: 5 })], {}],
      [[json(5)], {}],
    ];
    const ends = cancels.map(async ([payloads, reason]) => {
      const { id } = await waiting();
      await raw.signal(workflowId(id), 'cancel', payloads);
      expect((await cluster.client.waitForTerminal(id)).state).toBe('cancelled');
      expect((await cluster.log(id)).at(-1)?.data).toEqual({ ...reason, confirmation: 'cooperative' });
      const status = async (): Promise<string> => (await cluster.handle(id).describe()).status.name;
      await expect.poll(status, { timeout: 10_000 }).toBe('CANCELLED');
    });
    await Promise.all(ends);
  });

  it.each([
    ['approves', 0, 'approved'],
    ['rejects', 1, 'rejected'],
  ])('%s with what the current details say to send', async (_, which, said) => {
    const { id } = await cluster.run([{ approve: { title: 'Deploy?', description: 'to production' } }]);
    await cluster.action(id);
    const details = async (): Promise<string> => {
      const answer = await raw.query(workflowId(id), '__temporal_workflow_metadata');
      return JSON.parse(Buffer.from(answer?.data ?? []).toString()).currentDetails;
    };
    await expect.poll(details, { timeout: 5_000 }).toContain('Deploy?');
    const shown = await details();
    expect(shown).toContain('to production');
    const [, block = ''] = /```json\n([\s\S]*?)```/.exec(shown) ?? [];
    const line = block.trim().split('\n')[which]!;
    await raw.signal(workflowId(id), 'respond', [payload('json/plain', line)]);
    expect(await cluster.client.waitForTerminal(id)).toMatchObject({ state: 'succeeded', finalOutput: said });
    expect(types(await cluster.log(id))).toContain('action.responded');
  });

  it('gives an input, and a mistyped approval is none', async () => {
    const { id } = await cluster.run([{ approve: { title: 'ok?' } }, { ask: { title: 'what?' } }]);
    const first = await cluster.action(id);
    const send = (actionId: string, responseId: string, response: unknown): Promise<void> =>
      raw.signal(workflowId(id), 'respond', [json({ responseId, actionId, response })]);
    for (const [i, approved] of ['true', 1, null, undefined].entries()) await send(first.id, `r${i}`, { approved });
    await send(first.id, 'r9', true);
    expect((await cluster.client.getExecution(id)).state).toBe('awaiting_approval');
    await send(first.id, 'yes', { approved: true });
    const second = await cluster.action(id, first.sequence);
    await send(second.id, 'text', { value: 'blue' });
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('approvedblue');
  });
});
