/** The remote provider against a gateway of Holdfast, over a server and a worker of its own. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type RunningGateway, serveGateway } from '../../gateway/index.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import { capabilitiesOf, type RemoteOptions, remoteProvider } from '../../providers/remote/remote.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import type { HoldfastWorker } from '../../worker/worker.js';
import { Cluster, isActionRequired, PATIENT_POOL, QUICK_POOL } from '../support/cluster.js';
import { expectWhole, keptText, recoveries } from '../support/log-checks.js';
import { turnProvider } from '../support/turn-provider.js';

const TOKEN = 'remote-token-0123456789abcdef';
const ALL = {
  'action.approval': 'native',
  'action.input': 'native',
  'artifact.list': 'native',
  'event.replay': 'native',
  'event.streaming': 'native',
  'execution.cancel': 'native',
} as const;

let here: Cluster;
let there: Cluster;
let gateway: RunningGateway;
let worker: HoldfastWorker;
let options: RemoteOptions;

const turns = turnProvider('turns', 'native');

beforeAll(async () => {
  process.env.HOLDFAST_TEST_REMOTE_TOKEN = TOKEN;
  [here, there] = await Promise.all([Cluster.start(), Cluster.start()]);
  await there.worker({ pool: PATIENT_POOL, providers: [scriptedProvider(), turns.provider] });
  gateway = await serveGateway({ client: there.client, port: 0, tokens: [{ token: TOKEN }], handleSignals: false });
  options = {
    baseURL: gateway.url,
    provider: 'scripted',
    tokenEnv: 'HOLDFAST_TEST_REMOTE_TOKEN',
    capabilities: ALL,
  };
  worker = await here.worker({ pool: QUICK_POOL, providers: providers() });
});
afterAll(async () => {
  expect(await here?.compare()).toMatchObject({ different: [], divergences: 0, notCompared: [] });
  await here?.stop();
  await gateway?.close(0);
  await there?.stop();
});

const providers = () => [
  remoteProvider(options),
  remoteProvider({
    ...options,
    id: 'talking',
    provider: 'turns',
    capabilities: { 'conversation.continuity': 'native' },
  }),
  remoteProvider({
    ...options,
    id: 'overpromising',
    capabilities: { ...ALL, 'conversation.continuity': 'native' },
  }),
];

const start = (steps: readonly object[], more: object = {}) =>
  here.start({ providerId: 'remote', config: { steps: steps as never, ...more } });

/** The execution there that belongs to one here. */
async function counterpart(executionId: string): Promise<string> {
  const event = await here.seen(executionId, (each) => nameOf(each) === 'remote.started');
  return String((event.data as { executionId?: unknown }).executionId);
}

function nameOf(event: HoldfastEvent): unknown {
  return event.type === 'provider.event' ? event.data.name : undefined;
}

/** The number of an event that `slowly` made, else 0. */
function tick(event: HoldfastEvent): number {
  return nameOf(event) === 'x.tick' ? Number((event.data as { n?: number }).n) : 0;
}

const numbers = (text: string) => text.match(/\d+/g)?.map(Number) ?? [];

describe('an execution there is one here', () => {
  test('with its text, native events, artifacts, final output and usage', async () => {
    const { id } = await start([
      { say: 'Hello, wörld 😀', chunk: 3 },
      { native: { name: 'x.step', n: 1 } },
      { artifact: { id: 'art_report', name: 'report', mediaType: 'text/html', uri: 'https://files.example/1' } },
      { usage: { inputTokens: 5, outputTokens: 7, costUsd: 0.5 } },
    ]);
    const events = await here.log(id);
    expectWhole(events);
    expect(keptText(events)).toBe('Hello, wörld 😀');
    expect(events.map(nameOf).filter(Boolean)).toEqual(['remote.started', 'x.step']);
    expect(await here.client.artifacts(id)).toMatchObject([
      { id: 'art_report', executionId: id, name: 'report', uri: 'https://files.example/1' },
    ]);
    expect(await here.client.getExecution(id)).toMatchObject({
      state: 'succeeded',
      finalOutput: 'Hello, wörld 😀',
      usage: { inputTokens: 5, outputTokens: 7, costUsd: 0.5 },
    });
    const other = await there.client.getExecution(await counterpart(id));
    expect(other.requiredCapabilities).toEqual(Object.keys(ALL));
    expect(other.metadata).toMatchObject({ startedBy: { executionId: id } });
  });

  test('with its questions: an approval, a refusal and a value are answered here and heard there', async () => {
    const { id } = await start([
      { approve: { title: 'One?', payload: { n: 1 } } },
      { approve: { title: 'Two?' } },
      { ask: { title: 'Three?' } },
    ]);
    let after = 0;
    for (const response of [{ approved: true }, { approved: false }, { value: 0 }]) {
      const action = await here.action(id, after);
      await here.client.respond(id, action.id, response);
      after = action.sequence;
    }
    const { finalOutput } = await here.client.waitForTerminal(id);
    expect(finalOutput).toBe('approvedrejected0');
    const asked = (await here.log(id)).filter(isActionRequired);
    expect(asked.map(({ data }) => [data.kind, data.title, data.payload])).toEqual([
      ['approval', 'One?', { n: 1 }],
      ['approval', 'Two?', null],
      ['input', 'Three?', null],
    ]);
  });

  test('with what its questions bring along: the shape of a value, and a time that the other end keeps', async () => {
    const { id } = await start([
      { ask: { title: 'How many?', valueSchema: { type: 'integer' } } },
      { approve: { title: 'Quick!', timeoutSeconds: 1 } },
    ]);
    const action = await here.action(id);
    const answer = (value: number | string) => here.client.respond(id, action.id, { value });
    await expect(answer('many')).rejects.toThrow(expect.objectContaining({ code: 'VALIDATION_ERROR' }));
    await answer(7);
    expect((await here.client.waitForTerminal(id)).finalOutput).toBe('7expired');
    const [, second] = (await here.log(id)).filter(isActionRequired);
    const [, there2] = (await there.log(await counterpart(id))).filter(isActionRequired);
    expect(second!.data.expiresAt).toBe(there2!.data.expiresAt);
  });

  test('a question that is answered there is withdrawn here', async () => {
    const { id } = await start([{ approve: { title: 'Who is first?' } }, { say: '!' }]);
    const action = await here.action(id);
    const other = await counterpart(id);
    const [question] = (await there.client.getExecution(other)).pendingActions;
    await there.client.respond(other, question!.id, { approved: true });
    expect((await here.client.waitForTerminal(id)).finalOutput).toBe('approved!');
    const events = await here.log(id);
    expect(events.map(nameOf)).toContain('runtime.action_withdrawn');
    expect(events.filter(({ type }) => type === 'action.responded')).toEqual([]);
    const late = await here.client.respond(id, action.id, { approved: false }).catch((error) => error.code);
    expect(late).toBe('INVALID_STATE');
  });

  test('with its failure, what that had used, and what it refuses', async () => {
    const failed = await start([{ usage: { inputTokens: 3 } }, { fail: 'the disk is full' }]);
    const refused = await start([{ nonsense: 1 }]);
    expect(await here.client.waitForTerminal(failed.id)).toMatchObject({
      error: { code: 'PROVIDER_ERROR', message: 'the disk is full' },
      usage: { inputTokens: 3 },
    });
    const { error } = await here.client.waitForTerminal(refused.id);
    expect(error).toMatchObject({
      code: 'VALIDATION_ERROR',
      message: expect.stringMatching(/answered with 400.*config\.steps\.0/),
    });
  });

  test('a cancel here cancels there, and is confirmed only then', async () => {
    const hanging = await start([{ say: 'x' }, { hang: true }]);
    const asking = await start([{ approve: { title: 'Well?' } }]);
    await here.action(asking.id);
    for (const { id } of [hanging, asking]) {
      const other = await counterpart(id);
      await here.client.cancel(id, 'not needed');
      expect((await here.client.waitForTerminal(id)).state).toBe('cancelled');
      // No waiting: at this moment it has ended there.
      expect((await there.client.getExecution(other)).state).toBe('cancelled');
      expect((await here.log(id)).at(-1)!.data).toEqual({ reason: 'not needed', confirmation: 'cooperative' });
      expect((await there.log(other)).at(-1)!.data).toMatchObject({ confirmation: 'cooperative' });
    }
  });

  test('that is terminated through the server leaves nothing running there', async () => {
    const { id } = await start([{ say: 'x' }, { hang: true }]);
    const other = await counterpart(id);
    await here.handle(id).terminate('by an operator');
    expect((await there.client.waitForTerminal(other, { timeoutMs: 30_000 })).state).toBe('cancelled');
  });

  test('a promise that does not hold there fails before anything is started there', async () => {
    const { id } = await here.start({ providerId: 'overpromising' });
    const { error } = await here.client.waitForTerminal(id);
    expect(error).toMatchObject({
      code: 'CAPABILITY_UNSUPPORTED',
      message: expect.stringContaining('conversation.continuity is unsupported, not native'),
    });
    expect((await here.log(id)).map(nameOf)).not.toContain('remote.started');
    expect(await capabilitiesOf(options)).toMatchObject({ ...ALL, 'conversation.continuity': 'unsupported' });
  });
});

describe('a conversation there for one here', () => {
  test('goes on over turns, and when it is lost there the turn says so', async () => {
    const conversationId = (await here.client.createConversation()).id;
    const outputs: (string | undefined)[] = [];
    for (let turn = 1; turn <= 2; turn++) {
      const { id } = await here.start({ providerId: 'talking', conversationId });
      outputs.push((await here.client.waitForTerminal(id)).finalOutput);
      if (turn === 2) {
        const { conversationId: other } = await there.client.getExecution(await counterpart(id));
        await there.client.closeConversation(other);
      }
    }
    expect(outputs).toEqual(['turn 1', 'turn 2']);
    const { id } = await here.start({ providerId: 'talking', conversationId });
    const { error } = await here.client.waitForTerminal(id);
    expect(error?.message).toMatch(/the conversation conv_\w+ at the other end cannot go on: .*is closed/);
    expect((await here.log(id)).map(nameOf)).toContain('runtime.session_lost');
  });
});

describe('no event is lost or doubled', () => {
  test('when the gateway is cut off and started again while it streams', async () => {
    const { id } = await start([{ flood: { events: 50 } }, { say: '', chunk: 1 }, ...slowly(1, 60)]);
    const other = await counterpart(id);
    for (const sequence of [60, 80]) {
      await here.seen(id, (event) => event.sequence > sequence);
      const port = Number(new URL(gateway.url).port);
      const closing = gateway.close();
      await gateway.close();
      await closing;
      gateway = await serveGateway({
        client: there.client,
        port,
        tokens: [{ token: TOKEN }],
        handleSignals: false,
      });
    }
    const events = await here.log(id);
    expectWhole(events);
    const texts = (log: readonly HoldfastEvent[]) => keptText(log);
    expect(texts(events)).toBe(texts(await there.log(other)));
    expect(events.filter((event) => tick(event) > 0)).toHaveLength(60);
    expect(recoveries(events)).toEqual([]);
  });

  test('when the worker here is drained: the next goes on with the same execution there', async () => {
    const { id } = await start([...slowly(1, 20), { approve: { title: 'Go on?' } }, ...slowly(21, 40)]);
    const other = await counterpart(id);
    await here.seen(id, (event) => tick(event) > 5);
    await worker.shutdown({ drainMs: 0 });
    // Its question comes while nobody is here.
    await there.action(other);
    worker = await here.worker({ pool: QUICK_POOL, providers: providers() });
    const action = await here.action(id);
    await here.client.respond(id, action.id, { approved: true });

    const events = await here.log(id);
    expectWhole(events);
    expect(events.at(-1)!.type).toBe('run.completed');
    expect(recoveries(events)).toHaveLength(1);
    const all = Array.from({ length: 40 }, (_, i) => i + 1);
    expect(numbers(keptText(events))).toEqual(all);
    expect(events.map(tick).filter((n) => n > 0)).toEqual(all);
    expect(events.map(nameOf).filter((name) => name === 'remote.started')).toHaveLength(1);
    expect(await there.client.getExecution(other)).toMatchObject({ state: 'succeeded' });
  });
});

/** Numbered text and events, one pair every 50 ms. */
function slowly(from: number, to: number): object[] {
  const steps: object[] = [];
  for (let n = from; n <= to; n++) steps.push({ say: `${n} ` }, { native: { name: 'x.tick', n } }, { wait: 50 });
  return steps;
}
