import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { fingerprint } from '../../client/identity.js';
import type { HoldfastClient, StartedExecution } from '../../client/index.js';
import type { StartExecutionRequest } from '../../protocol/execution.js';
import { canonicalJson, type Json } from '../../protocol/json.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { CATALOG_WORKFLOW_ID } from '../../workflows/messages.js';
import { Cluster } from '../support/cluster.js';
import { codeOf, refusal } from './refusal.js';

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker({ providers: [scriptedProvider(), scriptedProvider({ id: 'other' })] });
});

afterAll(async () => {
  const compared = await cluster.stopCompared();
  expect(compared.equal).toBeGreaterThan(5);
});

let keys = 0;

/** A request with a key of its own, in a conversation of its own. */
async function request(more: Partial<StartExecutionRequest> = {}): Promise<StartExecutionRequest> {
  const conversationId = more.conversationId ?? (await cluster.client.createConversation()).id;
  return { conversationId, providerId: 'scripted', input: 'hello', idempotencyKey: `key ${++keys}`, ...more };
}

async function start(
  wanted: StartExecutionRequest,
  client: HoldfastClient = cluster.client,
): Promise<StartedExecution> {
  const started = await client.startExecution(wanted);
  if (!cluster.started.includes(started.execution.id)) cluster.started.push(started.execution.id);
  return started;
}

/** What an HTTP body or a command line makes of a text. */
function parsed(text: string): Json {
  return JSON.parse(text) as Json;
}

describe('an idempotency key', () => {
  it('starts one execution, however many ask at once', async () => {
    const another = await cluster.anotherClient();
    const wanted = await request();
    const started = await Promise.all(
      Array.from({ length: 20 }, (_, i) => start(wanted, i % 2 === 0 ? cluster.client : another)),
    );
    expect(new Set(started.map(({ execution }) => execution.id)).size).toBe(1);
    expect(started.filter(({ replayed }) => !replayed)).toHaveLength(1);
    const { finalOutput } = await cluster.client.waitForTerminal(started[0]!.execution.id);
    expect(finalOutput).toBe('hello');
  });

  it('finds the original whatever the order of keys and the spelling', async () => {
    const wanted = await request({
      input: parsed('{"a": 1, "b": {"c": [1, 2], "d": "a"}}'),
      config: { steps: [{ say: 'x', chunk: 1 }], suspend: false },
      requiredCapabilities: ['action.input', 'action.approval'],
    });
    const original = await start(wanted);
    const again = await start({
      ...wanted,
      input: parsed('{ "b": {"d": "\\u0061", "c": [1.0, 2e0]}, "a": 1.0 }'),
      config: { suspend: false, steps: [{ chunk: 1, say: 'x' }] },
      requiredCapabilities: ['action.approval', 'action.input', 'action.input'],
    });
    expect(again).toMatchObject({ replayed: true, execution: { id: original.execution.id } });
  });

  it('is refused for a request that asks for something else', async () => {
    const wanted = await request({ input: { n: [1, 2] }, requiredCapabilities: ['action.input'] });
    const { execution } = await start(wanted);
    const others: Partial<StartExecutionRequest>[] = [
      { input: { n: [2, 1] } },
      { input: { n: [1, 2], m: null } },
      { input: '{"n":[1,2]}' },
      { providerId: 'other' },
      { config: { suspend: false } },
      { requiredCapabilities: [] },
      { requiredCapabilities: ['action.input', 'action.approval'] },
    ];
    for (const other of others) {
      const refused = await refusal(cluster.client.startExecution({ ...wanted, ...other }));
      expect([other, refused.code]).toEqual([other, 'IDEMPOTENCY_CONFLICT']);
      expect(refused.details).toEqual({ executionId: execution.id });
    }
  });

  it('finds the original when only metadata and timeout differ, and keeps the original’s', async () => {
    const wanted = await request({ metadata: { trace: 'first' } });
    const original = await start(wanted);
    const again = await start({ ...wanted, metadata: { trace: 'second' }, timeoutSeconds: 1 });
    expect(again).toMatchObject({
      replayed: true,
      execution: { id: original.execution.id, metadata: { trace: 'first' } },
    });
  });

  it('finds the original also after its end, as it then is', async () => {
    const ended = await request();
    const failed = await request({ config: { steps: [{ fail: 'no' }] } });
    for (const wanted of [ended, failed]) {
      const { execution } = await start(wanted);
      const end = await cluster.client.waitForTerminal(execution.id);
      expect(await start(wanted)).toEqual({ execution: end, replayed: true });
    }
  });

  it('means another execution in another conversation', async () => {
    const one = await request({ idempotencyKey: 'the same' });
    const two = await request({ idempotencyKey: 'the same' });
    const started = [await start(one), await start(two)];
    expect(started.map(({ replayed }) => replayed)).toEqual([false, false]);
    expect(started[0]!.execution.id).not.toBe(started[1]!.execution.id);
  });

  it('may be any text of 1 to 200 characters, and stands in clear in no id', async () => {
    const { conversationId } = await request();
    for (const idempotencyKey of ['a', 'ключ 👋\n', "'; --", 'k'.repeat(200)]) {
      const wanted = await request({ conversationId, idempotencyKey });
      const { execution } = await start(wanted);
      expect(execution.id).toMatch(/^exec_[a-z2-7]{26}$/);
      expect((await start(wanted)).execution.id).toBe(execution.id);
    }
    for (const idempotencyKey of ['', 'k'.repeat(201), 5 as never])
      expect(await codeOf(cluster.client.startExecution(await request({ conversationId, idempotencyKey })))).toBe(
        'VALIDATION_ERROR',
      );
  });

  it.each([
    ['__proto__', '{"__proto__": {"admin": true}}', '{}'],
    ['__proto__ further down', '{"a": [{"__proto__": 1}]}', '{"a": [{}]}'],
    ['2^53 + 1', '{"n": 9007199254740993}', '{"n": 9007199254740992}'],
    ['1e400', '{"n": 1e400}', '{"n": null}'],
  ])('never takes two requests for one because %s was lost on the way', async (_, lossy, look) => {
    const wanted = await request({ input: parsed(lossy), metadata: {} });
    const original = await codeOf(start(wanted));
    expect(original).toBe('VALIDATION_ERROR');
    expect(await codeOf(start({ ...wanted, input: 1, config: parsed(lossy) as never }))).toBe('VALIDATION_ERROR');
    // Nothing was started under the key, so the one that looks alike is a new one, unless it is lossy as well.
    const alike = await start({ ...wanted, input: parsed(look) }).catch((error: unknown) => error);
    expect(alike).toMatchObject(look.includes('9007199254740992') ? { code: 'VALIDATION_ERROR' } : { replayed: false });
  });

  it('starts anew once the original is deleted, and says so', async () => {
    const wanted = await request();
    const original = await start(wanted);
    await cluster.client.waitForTerminal(original.execution.id);
    await cluster.temporal.workflowService.deleteWorkflowExecution({
      namespace: 'default',
      workflowExecution: { workflowId: `default.${original.execution.id}` },
    });
    await expect
      .poll(() => codeOf(cluster.client.getExecution(original.execution.id)), { timeout: 20_000 })
      .toBe('NOT_FOUND');
    // While the deletion is under way the outcome is unknown, and the client says so.
    let again: StartedExecution | undefined;
    await expect
      .poll(
        async () => {
          again = await start(wanted).catch((error: { code?: string }) => {
            if (error.code !== 'RUNTIME_UNAVAILABLE') throw error;
            return undefined;
          });
          return again !== undefined;
        },
        { timeout: 20_000 },
      )
      .toBe(true);
    expect(again!.replayed).toBe(false);
    expect(again!.execution.id).toBe(original.execution.id);
    expect((await cluster.client.waitForTerminal(again!.execution.id)).createdAt > original.execution.createdAt).toBe(
      true,
    );
    expect((await start(wanted)).replayed).toBe(true);
  });
});

describe('the fingerprint of a request', () => {
  const json = fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.parse(JSON.stringify(value)) as Json);
  const print = (input: Json): string => fingerprint({ conversationId: 'conv_a', providerId: 'p', input });

  it('is equal exactly for equal values, whatever the order of their keys', () => {
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(print(reversed(a))).toBe(print(a));
        expect(print(a) === print(b)).toBe(canonicalJson(a) === canonicalJson(b));
      }),
    );
  });
});

function reversed(value: Json): Json {
  if (Array.isArray(value)) return value.map(reversed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([key, member]) => [key, reversed(member)]),
  );
}

/** Takes the catalog down, so these come last. */
describe('the key is looked up before all else', () => {
  it('also when what was required is no longer supported, the conversation is closed, or the provider is gone', async () => {
    const wanted = await request({ providerId: 'other', requiredCapabilities: ['action.input'] });
    const original = await start(wanted);
    const replay = { replayed: true, execution: { id: original.execution.id } };
    const anotherKey = (): StartExecutionRequest => ({ ...wanted, idempotencyKey: `key ${++keys}` });
    const { manifest } = scriptedProvider({ id: 'other' });
    const announced = {
      manifest: { ...manifest, capabilities: { ...manifest.capabilities, 'action.input': 'unsupported' } },
      taskQueue: 'nobody-polls-this',
    };
    const catalog = cluster.temporal.workflow.getHandle(CATALOG_WORKFLOW_ID);
    await catalog.signal('announce', announced);
    const levels = async () =>
      (await cluster.client.describeRuntime()).providers.map((each) => [each.id, each.capabilities['action.input']]);
    await expect.poll(levels, { timeout: 10_000 }).toContainEqual(['other', 'unsupported']);
    expect(await start(wanted)).toMatchObject(replay);
    expect(await codeOf(cluster.client.startExecution(anotherKey()))).toBe('CAPABILITY_UNSUPPORTED');

    await cluster.temporal.workflow.getHandle(`default.${wanted.conversationId}`).terminate();
    expect(await start(wanted)).toMatchObject(replay);
    expect(await codeOf(cluster.client.startExecution(anotherKey()))).toBe('INVALID_STATE');

    await catalog.terminate();
    await cluster.temporal.workflowService.deleteWorkflowExecution({
      namespace: 'default',
      workflowExecution: { workflowId: CATALOG_WORKFLOW_ID },
    });
    await expect.poll(levels, { timeout: 20_000 }).toEqual([]);
    expect(await start(wanted)).toMatchObject(replay);
    expect(await codeOf(cluster.client.startExecution(anotherKey()))).toBe('PROVIDER_NOT_FOUND');
  });
});
