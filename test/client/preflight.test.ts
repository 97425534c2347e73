import { createServer, connect as dial, type Socket } from 'node:net';
import { msToTs } from '@temporalio/common/lib/time.js';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HoldfastClient } from '../../client/client.js';
import { executionIdOf } from '../../client/identity.js';
import type { ClientOptions } from '../../client/options.js';
import { registerSearchAttributes } from '../../dev/search-attributes.js';
import { HoldfastError } from '../../protocol/errors.js';
import type { StartExecutionRequest } from '../../protocol/execution.js';
import type { Json } from '../../protocol/json.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { createWorker } from '../../worker/worker.js';
import { SEARCH_ATTRIBUTES } from '../../workflows/messages.js';
import { Cluster } from '../support/cluster.js';
import { codeOf, refusal } from './refusal.js';

let cluster: Cluster;
let client: HoldfastClient;
let conversationId: string;
/** One that has ended, with a log of known length. */
let finished: { id: string; last: number };

beforeAll(async () => {
  cluster = await Cluster.start();
  client = cluster.client;
  await cluster.worker();
  conversationId = (await client.createConversation()).id;
  const { id } = await cluster.run([{ say: 'x' }]);
  await client.waitForTerminal(id);
  finished = { id, last: (await cluster.log(id)).length };
});

afterAll(async () => {
  const compared = await cluster.stopCompared();
  expect(compared.equal).toBeGreaterThan(5);
});

let keys = 0;

/** Refused with this, and nothing was started: the execution that the key would name is not there. */
async function refusedStart(more: object): Promise<HoldfastError> {
  const idempotencyKey = `key ${++keys}`;
  const wanted = { conversationId, providerId: 'scripted', input: 'x', idempotencyKey, ...more };
  const refused = await refusal(client.startExecution(wanted as StartExecutionRequest));
  const id = executionIdOf('default', conversationId, idempotencyKey);
  expect(await codeOf(client.getExecution(id))).toBe('NOT_FOUND');
  return refused;
}

describe('a request that cannot be served is refused before anything is started', () => {
  it('for a conversation that is not there', async () => {
    const refused = await refusedStart({ conversationId: 'conv_never' });
    expect(refused).toMatchObject({ code: 'NOT_FOUND', message: expect.stringContaining('conv_never') });
    expect(await codeOf(client.startExecution({ conversationId: finished.id, providerId: 'scripted', input: 1 }))).toBe(
      'NOT_FOUND',
    );
  });

  it('for a provider that nobody announced, naming those there are', async () => {
    const refused = await refusedStart({ providerId: 'scriptet' });
    expect(refused).toMatchObject({ code: 'PROVIDER_NOT_FOUND', details: { providers: ['scripted'] } });
    expect(refused.message).toContain('scripted');
  });

  it.each(['conversation.continuity', 'extension.unheard-of', 'toString'])('for the capability %s', async (missing) => {
    const refused = await refusedStart({ requiredCapabilities: ['action.input', missing] });
    expect(refused).toMatchObject({ code: 'CAPABILITY_UNSUPPORTED', details: { missing: [missing] } });
    expect(refused.message).toContain(missing);
  });

  it.each([
    ['stepz', { stepz: [] }],
    ['suspend', { suspend: 'yes' }],
    ['steps.1.wait', { steps: [{ say: 'x' }, { wait: 'long' }] }],
    ['steps.0', { steps: [{ sya: 'x' }] }],
  ])('for a config that does not fit, naming %s', async (name, config) => {
    const refused = await refusedStart({ config });
    expect(refused).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.stringContaining(name) });
  });

  it('for a config that fits none of several forms, naming them and not the first alone', async () => {
    const refused = await refusedStart({ config: { steps: [{ sya: 'x' }] } });
    expect(refused.message).toMatch(/^config\.steps\.0: .*'say'.*, or .*'wait'.*, or /);
    expect(refused.message.length).toBeLessThan(1000);
  });

  it('for a field it does not know', async () => {
    const refused = await refusedStart({ idempotencykey: 'x' });
    expect(refused).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.stringContaining('idempotencykey') });
    expect((await refusedStart({ tenant: 'another' })).code).toBe('VALIDATION_ERROR');
    expect((await refusedStart(JSON.parse('{"__proto__": {"input": 1}}') as object)).code).toBe('VALIDATION_ERROR');
  });

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '5', null, 2 ** 31])(
    'for the timeout %s',
    async (value) => {
      const refused = await refusedStart({ timeoutSeconds: value });
      expect(refused).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.stringContaining('timeoutSeconds') });
    },
  );

  it('for what is too large, naming it', async () => {
    const text = (kib: number): string => 'x'.repeat(kib * 1024);
    const cases: [string, object][] = [
      ['request', { input: text(512) }],
      ['metadata', { metadata: { a: text(16) } }],
      ['config', { config: { steps: [{ say: text(128) }] } }],
      // Counted as it travels: a character of three bytes is three, one that is escaped is six.
      ['request', { input: '語'.repeat(180 * 1024) }],
      ['request', { input: '\u0001'.repeat(90 * 1024) }],
    ];
    for (const [name, more] of cases) {
      const refused = await refusedStart(more);
      expect(refused).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.stringContaining(name) });
    }
    expect(await codeOf(client.createConversation({ metadata: { a: text(16) } }))).toBe('VALIDATION_ERROR');
    expect(await codeOf(client.respond(finished.id, 'act_a', { value: text(64) }))).toBe('VALIDATION_ERROR');
    expect(await codeOf(client.cancel(finished.id, text(5)))).toBe('VALIDATION_ERROR');
  });

  it('for nesting of 20,000 levels, by name, wherever it is', async () => {
    const deep = (levels: number): Json => {
      let value: Json = 1;
      for (let i = 0; i < levels; i++) value = i % 2 === 0 ? [value] : { a: value };
      return value;
    };
    const object = { a: deep(20_000) };
    for (const more of [{ input: object }, { config: object }, { metadata: object }]) {
      const refused = await refusedStart(more);
      expect(refused).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.stringContaining('nested deeper') });
    }
    const others = [
      client.createConversation({ metadata: object }),
      client.respond(finished.id, 'act_a', { value: object }),
    ];
    for (const refused of await Promise.all(others.map(refusal))) expect(refused.message).toContain('nested deeper');
  });

  it.each([
    ['a circle', circle()],
    ['a bigint', 5n],
    ['a function', () => 1],
    ['a date', new Date()],
    ['a map', new Map([['a', 1]])],
    ['a hole', new Array(1)],
    ['nothing', undefined],
  ])('for an input that is no JSON: %s', async (_, input) => {
    expect(await refusedStart({ input })).toMatchObject({
      code: 'VALIDATION_ERROR',
      message: expect.stringContaining('input'),
    });
  });
});

function circle(): object {
  const value: { self?: object } = {};
  value.self = value;
  return value;
}

describe('a request that can be served', () => {
  const hundred = Array.from({ length: 100 }).reduce<Json>(
    (inner, _, i) => (i % 2 === 0 ? [inner] : { a: inner }),
    'x',
  );

  it.each<[string, Json]>([
    ['false', false],
    ['0', 0],
    ['an empty text', ''],
    ['an empty list', []],
    ['an empty object', {}],
    ['null', null],
    ['100 levels', hundred],
    ['awkward keys', { constructor: 1, toString: null, hasOwnProperty: [], '': 0, 'a.b': '/', '👋': '\u2028' }],
    ['awkward text', ['\u0000', '\ud800', '\r\n', '</script>', '\u{10ffff}', 'e\u0301', '\ufeff']],
    ['awkward numbers', [5e-324, 1 / 3, 2 ** 53 - 1, -(2 ** 53 - 1), 0.1 + 0.2]],
  ])('keeps its input exactly: %s', async (_, input) => {
    const metadata = { kept: input };
    const { execution } = await client.startExecution({ conversationId, providerId: 'scripted', input, metadata });
    cluster.started.push(execution.id);
    const end = await client.waitForTerminal(execution.id);
    for (const read of [execution, end, await client.getExecution(execution.id)])
      expect(JSON.stringify([read.input, read.metadata])).toBe(JSON.stringify([input, metadata]));
    expect(end.state).toBe('succeeded');
    expect(end.finalOutput).toBe(typeof input === 'string' ? input : JSON.stringify(input));
  });

  it('may be as large as the limit', async () => {
    const input = 'x'.repeat(511 * 1024);
    const { execution } = await client.startExecution({ conversationId, providerId: 'scripted', input });
    cluster.started.push(execution.id);
    const end = await client.waitForTerminal(execution.id);
    expect(end).toMatchObject({ state: 'succeeded', input });
    expect(end.finalOutput!.length).toBeLessThan(input.length);
    const last = (await cluster.log(execution.id)).at(-1);
    expect(last?.data).toMatchObject({ truncated: true });
  });

  it.each([2_147_484, 315_360_000])(
    'may have a timeout of %d seconds, more than a timer of Node can hold',
    async (s) => {
      const { id } = await cluster.run([{ wait: 50 }, { say: 'in time' }], { timeoutSeconds: s });
      expect(await client.waitForTerminal(id)).toMatchObject({ state: 'succeeded', finalOutput: 'in time' });
    },
  );
});

describe('ids', () => {
  const bad = [
    '',
    'a/b',
    '50%',
    '#1',
    'a?b',
    "x' OR HoldfastTenant = 'default",
    '"',
    'a b',
    'a\n',
    'é',
    'e\u0301',
    '.',
  ];
  const alike = bad.concat(['a'.repeat(129), 'exec_a\u0000', '../x', 'a:cancel']);

  it.each(alike)('that are none are refused everywhere, with the allowed set named: %j', async (id) => {
    const tries: [string, Promise<unknown>][] = [
      ['executionId', client.getExecution(id)],
      ['executionId', client.listEvents(id)],
      ['executionId', client.artifacts(id)],
      ['executionId', client.waitForTerminal(id)],
      ['executionId', client.cancel(id)],
      ['executionId', client.respond(id, 'act_a', { approved: true })],
      ['actionId', client.respond(finished.id, id, { approved: true })],
      ['responseId', client.respond(finished.id, 'act_a', { approved: true }, { responseId: id })],
      ['conversationId', client.getConversation(id)],
      ['conversationId', client.startExecution({ conversationId: id, providerId: 'scripted', input: 1 })],
      ['providerId', client.startExecution({ conversationId, providerId: id, input: 1 })],
      ['conversationId', client.listExecutions({ conversationId: id })],
      ['providerId', client.listExecutions({ providerId: id })],
      ['tenant', cluster.anotherClient({ tenant: id })],
      ['executionId', (async () => client.events(id).next())()],
    ];
    const refusals = await Promise.all(tries.map(async ([name, attempt]) => [name, await refusal(attempt)] as const));
    for (const [name, refused] of refusals) {
      expect([name, refused.code]).toEqual([name, 'VALIDATION_ERROR']);
      expect(refused.message).toContain(name);
      expect(refused.message).toMatch(/A–Z, a–z, 0–9, "_" and "-"/);
    }
  });

  it('of something else of ours name no execution and no conversation, and acting on them does nothing', async () => {
    const attempts = [
      client.getExecution(conversationId),
      client.listEvents(conversationId),
      client.cancel(conversationId),
      client.respond(conversationId, 'act_a', { approved: true }),
      client.getConversation(finished.id),
      client.getExecution('exec_namespace'),
    ];
    for (const refused of await Promise.all(attempts.map(refusal))) expect(refused.code).toBe('NOT_FOUND');
    // The conversation that was to be cancelled takes executions as before.
    const { id } = await cluster.run([{ say: 'x' }], { conversationId });
    expect((await client.waitForTerminal(id)).state).toBe('succeeded');
  });
});

describe('cursors and limits', () => {
  it.each([-1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53, '3', null, {}])(
    'that are none are refused: %s',
    async (after) => {
      const options = { after: after as number };
      expect(await refusal(client.listEvents(finished.id, options))).toMatchObject({ code: 'VALIDATION_ERROR' });
      expect(await codeOf((async () => client.events(finished.id, options).next())())).toBe('VALIDATION_ERROR');
      if (after !== 2 ** 53)
        expect(await codeOf(client.listEvents(finished.id, { limit: after as number }))).toBe('VALIDATION_ERROR');
    },
  );

  it('beyond the last event are refused with where that is; at the last one there is nothing more', async () => {
    const { id, last } = finished;
    const beyond = { after: last + 1 };
    const refused = await refusal(client.listEvents(id, beyond));
    expect(refused).toMatchObject({ code: 'VALIDATION_ERROR', details: { lastSequence: last } });
    expect(await refusal(client.events(id, beyond).next())).toMatchObject({ code: 'VALIDATION_ERROR' });
    expect(await client.listEvents(id, { after: last })).toEqual({ events: [], nextCursor: last });
    expect(await client.events(id, { after: last }).next()).toEqual({ done: true, value: undefined });
  });

  it('of a log that still grows: beyond is refused, the end waits', async () => {
    const { id } = await cluster.run([{ approve: { title: 'go on?' } }]);
    const action = await cluster.action(id);
    expect(await codeOf(client.events(id, { after: action.sequence + 1 }).next())).toBe('VALIDATION_ERROR');
    const answered = cluster.seen(id, () => true, action.sequence);
    await client.respond(id, action.id, { approved: true });
    expect(await answered).toMatchObject({ sequence: action.sequence + 1, type: 'action.responded' });
    await client.waitForTerminal(id);
  });
});

describe('waiting', () => {
  it.each([-1, Number.NaN, Number.POSITIVE_INFINITY, '5', 2 ** 31, null])('%s ms is refused', async (timeoutMs) => {
    const options = { timeoutMs: timeoutMs as number };
    expect(await codeOf(client.waitForTerminal(finished.id, options))).toBe('VALIDATION_ERROR');
    expect(await codeOf(client.respond(finished.id, 'act_a', { approved: true }, options))).toBe('VALIDATION_ERROR');
  });

  it('gives up after its time, saying the state, and as long as can be otherwise', async () => {
    const { id } = await cluster.run([{ approve: { title: 'go on?' } }]);
    const action = await cluster.action(id);
    const long = client.waitForTerminal(id, { timeoutMs: 2 ** 31 - 1 });
    const refused = await refusal(client.waitForTerminal(id, { timeoutMs: 50 }));
    expect(refused).toMatchObject({ code: 'RUNTIME_UNAVAILABLE', details: { state: 'awaiting_approval' } });
    await client.respond(id, action.id, { approved: true });
    expect((await long).state).toBe('succeeded');
  });
});

describe('every failure is a HoldfastError', () => {
  const junk = fc.oneof(
    fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true, withSparseArray: true }),
    fc.constantFrom<unknown>(Symbol('x'), () => 1, new AbortController()),
  );
  const known = fc.constantFrom<unknown>('exec_never', 'conv_never', 'act_never', undefined);
  const argument = fc.oneof(junk, junk, known);
  const methods = [
    'getExecution',
    'getConversation',
    'createConversation',
    'startExecution',
    'listExecutions',
    'listEvents',
    'artifacts',
    'waitForTerminal',
    'respond',
    'cancel',
  ] as const;

  it('whatever the arguments', async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...methods), fc.array(argument, { maxLength: 4 }), async (method, args) => {
        const call = client[method] as (...args: unknown[]) => Promise<unknown>;
        await call.apply(client, args).catch(onlyOurs);
      }),
      { numRuns: 400 },
    );
  });

  it('whatever the options, also for an execution that is there', async () => {
    const option = fc.dictionary(fc.constantFrom('after', 'limit', 'signal', 'timeoutMs', 'responseId'), junk);
    await fc.assert(
      fc.asyncProperty(fc.oneof(option, junk), async (given) => {
        const options = given as object;
        await client.listEvents(finished.id, options).catch(onlyOurs);
        await client.waitForTerminal(finished.id, options).catch(onlyOurs);
        await client.respond(finished.id, 'act_a', { approved: true }, options).catch(onlyOurs);
        await firstEvent(finished.id, options).catch(onlyOurs);
      }),
      { numRuns: 100 },
    );
    expect(client.load).toMatchObject({ followed: 0, polls: 0 });
  });

  async function firstEvent(id: string, options: object): Promise<unknown> {
    for await (const event of client.events(id, options)) return event;
    return undefined;
  }

  function onlyOurs(error: unknown): void {
    if (!(error instanceof HoldfastError)) throw new Error('not ours', { cause: error });
    if (error.code === 'INTERNAL_ERROR') throw new Error(`nobody could act on this: ${error.message}`);
  }

  it('also when reading an argument runs code that throws', async () => {
    const throws = (): never => {
      throw new RangeError('no');
    };
    const traps = new Proxy({}, { get: throws, ownKeys: throws, getPrototypeOf: throws });
    for (const trap of [traps, { after: traps, input: traps }] as never[]) {
      const attempts = [
        client.getExecution(trap),
        client.startExecution(trap),
        client.createConversation(trap),
        client.listExecutions(trap),
        client.listEvents(finished.id, trap),
        client.waitForTerminal(finished.id, { signal: trap }),
        client.respond(finished.id, 'act_a', trap),
        firstEvent(finished.id, trap),
      ];
      const codes = (await Promise.all(attempts.map(refusal))).map((refused) => refused.code);
      expect(codes).toEqual(attempts.map(() => 'VALIDATION_ERROR'));
    }
  });

  it.each<[string, unknown]>([
    ['null', null],
    ['a text', 'localhost:7233'],
    ['an address', { address: 7233 }],
    ['an empty address', { address: '' }],
    ['a namespace', { namespace: 5 }],
    ['long polls', { maxLongPolls: 0 }],
    ['a connection', { connection: 'tls' }],
    ['a payload converter', { dataConverter: { payloadConverterPath: 'x' } }],
  ])('of a client that cannot be: %s', async (_, options) => {
    expect(await codeOf(HoldfastClient.connect(options as ClientOptions))).toBe('VALIDATION_ERROR');
  });

  it('of a worker that cannot be', async () => {
    const { address } = cluster.server;
    const dataConverter = { payloadConverterPath: 'x' };
    const scripted = scriptedProvider();
    const wordy = { ...scripted, manifest: { ...scripted.manifest, metadata: { about: 'x'.repeat(128 * 1024) } } };
    for (const options of [{ providers: [] }, { providers: [scripted], dataConverter }, { providers: [wordy] }])
      expect(await codeOf(createWorker({ address, ...options }))).toBe('VALIDATION_ERROR');
  });

  it('of a client that was closed', async () => {
    const closed = await HoldfastClient.connect({ address: cluster.server.address });
    const { id } = await cluster.run([{ approve: { title: 'go on?' } }]);
    const action = await cluster.action(id);
    const events = closed.events(id);
    for (let i = 0; i < action.sequence; i++) await events.next();
    const waiting = events.next();
    const terminal = closed.waitForTerminal(id);
    terminal.catch(() => undefined);
    await expect.poll(() => closed.load.followed).toBe(1);
    await closed.close();
    expect(await waiting).toEqual({ done: true, value: undefined });
    expect((await refusal(terminal)).code).toBe('RUNTIME_UNAVAILABLE');
    const late = [closed.getExecution(id), closed.events(id).next(), closed.cancel(id)];
    for (const refused of await Promise.all(late.map(refusal)))
      expect(refused).toMatchObject({
        code: 'RUNTIME_UNAVAILABLE',
        message: expect.stringContaining('closed') as string,
      });
    await client.respond(id, action.id, { approved: true });
    await client.waitForTerminal(id);
  });
});

describe('a cluster that is not as it should be', () => {
  const namespace = 'fresh';

  it('lacks search attributes: the first submit and the worker say which, and the command; then it works', async () => {
    const { workflowService, operatorService } = cluster.temporal.connection;
    const missing = await cluster.anotherClient({ namespace });
    const unknown = await refusal(missing.createConversation());
    expect(unknown.code).toBe('RUNTIME_UNAVAILABLE');
    expect(unknown.message).toContain(namespace);
    await workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs(30 * 24 * 60 * 60 * 1000),
    });
    // Frontends learn of a new namespace within seconds.
    const seen = async (): Promise<string> => (await refusal(missing.createConversation())).message;
    await expect.poll(seen, { timeout: 20_000, interval: 200 }).toMatch(/search attribute/);
    const attribute = /Holdfast(State|Provider|Conversation|Tenant)/;
    const attempts = [
      missing.createConversation(),
      missing.listExecutions(),
      missing.listExecutions({ state: 'failed' }),
    ];
    for (const refused of await Promise.all(attempts.map(refusal))) {
      expect(refused.code).toBe('RUNTIME_UNAVAILABLE');
      expect(refused.message).toMatch(attribute);
      expect(refused.message).toContain('holdfast setup');
    }
    const options = {
      address: cluster.server.address,
      namespace,
      providers: [scriptedProvider()],
      handleSignals: false,
      drainMs: 0,
    };
    const worker = await refusal(createWorker(options));
    expect(worker).toMatchObject({
      code: 'RUNTIME_UNAVAILABLE',
      details: { missing: Object.values(SEARCH_ATTRIBUTES) },
    });
    expect(worker.message).toContain('holdfast setup');

    await registerSearchAttributes({ operatorService }, namespace);
    await expect.poll(() => codeOf(missing.createConversation()), { timeout: 20_000, interval: 200 }).toBe('none');
    const working = await createWorker({ ...options, log: () => undefined });
    const conversation = await missing.createConversation();
    const { execution } = await missing.startExecution({
      conversationId: conversation.id,
      providerId: 'scripted',
      input: 'fresh',
    });
    expect((await missing.waitForTerminal(execution.id)).finalOutput).toBe('fresh');
    await working.shutdown({ drainMs: 0 });
  });

  it('is not there, or went away: RUNTIME_UNAVAILABLE, with what to check, in bounded time', async () => {
    const [host, port] = cluster.server.address.split(':');
    const sockets = new Set<Socket>();
    const proxy = createServer((socket) => {
      const upstream = dial(Number(port), host);
      for (const end of [socket, upstream]) {
        sockets.add(end);
        end.on('error', () => undefined);
      }
      socket.pipe(upstream).pipe(socket);
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const address = `127.0.0.1:${(proxy.address() as { port: number }).port}`;
    const lost = await HoldfastClient.connect({ address });
    expect((await lost.getExecution(finished.id)).state).toBe('succeeded');
    proxy.close();
    for (const socket of sockets) socket.destroy();

    const began = Date.now();
    const responseId = 'mine';
    const attempts = await Promise.all(
      [
        HoldfastClient.connect({ address }),
        createWorker({ address, providers: [scriptedProvider()], handleSignals: false }),
        lost.getExecution(finished.id),
        lost.listExecutions(),
        lost.createConversation(),
        lost.describeRuntime(),
        lost.cancel(finished.id),
        lost.respond(finished.id, 'act_a', { approved: true }, { responseId, timeoutMs: 1_000 }),
      ].map(refusal),
    );
    expect(attempts.map((refused) => refused.code)).toEqual(attempts.map(() => 'RUNTIME_UNAVAILABLE'));
    for (const refused of attempts.slice(0, 2)) expect(refused.message).toContain(address);
    expect(attempts.at(-1)?.details).toEqual({ outcome: 'unknown', responseId });
    expect(Date.now() - began).toBeLessThan(15_000);
    await lost.close();
  });
});
