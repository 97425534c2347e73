/** The remote provider against a server that is killed, that repeats itself, leaves things out, or is no server at all. */
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { HoldfastError } from '../../protocol/errors.js';
import type { Json } from '../../protocol/json.js';
import { HandedOver } from '../../providers/provider.js';
import { type RemoteOptions, remoteProvider } from '../../providers/remote/remote.js';
import { conversationReply, read } from '../../providers/remote/wire.js';
import { eventually } from '../support/provider-context.js';
import { Attempt, type AttemptOptions } from '../support/scripted-context.js';
import { answer, SmallServer } from './remote-server.js';

const TOKEN = 'a-token-that-nobody-may-see';

let server: SmallServer;
beforeEach(async () => {
  process.env.HOLDFAST_TEST_REMOTE_TOKEN = TOKEN;
  server = await SmallServer.start();
});
afterEach(() => server.kill());

function attempt(context: AttemptOptions = {}, options: Partial<RemoteOptions> = {}): Attempt<unknown> {
  const provider = remoteProvider({
    baseURL: server.url,
    provider: 'worker',
    tokenEnv: 'HOLDFAST_TEST_REMOTE_TOKEN',
    unreachableMs: 20_000,
    ...options,
  });
  return new Attempt(provider, context);
}

const lines = (one: Attempt<unknown>) => one.text.split(' ').filter(Boolean).map(Number);
const upTo = (n: number) => Array.from({ length: n }, (_, i) => i + 1);
const journalOf = (one: Attempt<unknown>) => one.all('record') as Json[];
const said = (n: number) => server.push('output.text.delta', { text: `${n} ` });

describe('no event is lost or doubled', () => {
  test('when the server is killed and restarted while it streams, again and again', async () => {
    const one = attempt();
    for (let n = 1; n <= 60; n++) {
      said(n);
      server.push('provider.event', { name: 'x.count', n });
      if (n % 20 === 0) {
        await eventually(() => lines(one).includes(n));
        await server.kill();
        // It goes on while nobody hears it.
        said(n + 0.5);
        await server.listen();
      }
    }
    server.push('run.completed', { finalOutput: 'the end' });
    expect(await one.result).toEqual({ finalOutput: 'the end', usage: { inputTokens: 7 } });
    const expected = upTo(60).flatMap((n) => (n % 20 === 0 ? [n, n + 0.5] : [n]));
    expect(lines(one)).toEqual(expected);
    const counts = (one.all('native') as { name: string; n: number }[]).filter(({ name }) => name === 'x.count');
    expect(counts.map(({ n }) => n)).toEqual(upTo(60));
    expect(server.executions).toBe(1);
  });

  test('when connections break inside a frame, and the server repeats and reorders what it said', async () => {
    let opened = 0;
    server.interfere = ({ path }, response) => {
      if (!path.includes('/events')) return false;
      opened += 1;
      if (opened > 4) return false;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      // From the start whatever was asked for; twice; with a hole; and cut in the middle of a frame.
      const all = server.frames(0);
      const body = [
        all.slice(0, all.length - 30),
        server.frames(0, 5) + server.frames(0, 7),
        server.frames(10),
        all.slice(0, 450),
      ];
      response.write(body[opened - 1]);
      setTimeout(() => response.destroy(), 30);
      return true;
    };
    for (const n of upTo(20)) said(n);
    server.push('run.completed', { finalOutput: 'x' });
    const one = attempt();
    await one.result;
    expect(lines(one)).toEqual(upTo(20));
    expect(opened).toBeGreaterThan(2);
  });

  test('when frames come byte by byte, with CRLF, comments and frames of no event', async () => {
    server.write = (response, frame) => {
      response.write(': alive\r\n\r\nevent: ping\r\ndata: {}\r\n\r\n');
      for (const byte of Buffer.from(frame.replaceAll('\n', '\r\n'))) response.write(Buffer.from([byte]));
    };
    const one = attempt();
    server.push('output.text.delta', { text: 'grüße 😀 ' });
    server.push('output.text.delta', { text: 'line\nline\u2028' });
    server.push('run.completed', {});
    expect(await one.result).toEqual({ usage: { inputTokens: 7 } });
    expect(one.text).toBe('grüße 😀 line\nline\u2028');
  });

  test('when a connection falls silent without an end', async () => {
    const one = attempt({}, { quietMs: 300 });
    said(1);
    await eventually(() => lines(one).length === 1);
    const before = server.of('GET', /events/).length;
    await eventually(() => server.of('GET', /events\?after=1/).length > before);
    said(2);
    server.push('run.completed', {});
    await one.result;
    expect(lines(one)).toEqual([1, 2]);
  });

  test('when the attempt here is replaced: the next one goes on behind what is on record', async () => {
    const first = attempt();
    said(1);
    server.push('provider.event', { name: 'x.step', n: 1 });
    server.push('artifact.created', { id: 'art_1', name: 'a', mediaType: 'text/plain', metadata: {} });
    await eventually(() => journalOf(first).some((entry) => JSON.stringify(entry) === '{"after":3}'));
    first.abort(new HandedOver('the worker shuts down'));
    await expect(first.result).rejects.toThrow('the worker shuts down');
    server.push('provider.event', { name: 'x.step', n: 2 });
    server.push('run.completed', { finalOutput: 'y' });
    const second = attempt({ attempt: 2, resume: { journal: journalOf(first) } });
    expect(await second.result).toMatchObject({ finalOutput: 'y' });
    expect(second.all('native')).toEqual([{ name: 'x.step', n: 2 }]);
    expect(second.all('artifact')).toEqual([]);
    expect(server.executions).toBe(1);
    expect(server.of('POST', /executions$/)).toHaveLength(1);
    // Handing over is no cancel.
    expect(server.of('POST', /:cancel$/)).toEqual([]);
  });

  test('an attempt that was lost between the start and its record finds the same execution', async () => {
    // The answer to the start never arrives, again and again.
    server.interfere = ({ method, path }, response) => {
      if (method !== 'POST' || path !== '/v1/executions') return false;
      if (server.of('POST', /executions$/).length > 3) return false;
      response.destroy();
      return true;
    };
    const first = attempt();
    await eventually(() => server.of('POST', /executions$/).length >= 2);
    first.abort(new HandedOver('lost'));
    await expect(first.result).rejects.toThrow('lost');
    const second = attempt({ attempt: 2, resume: { journal: journalOf(first) } });
    server.push('run.completed', {});
    await second.result;
    const starts = server.of('POST', /executions$/);
    expect(new Set(starts.map(({ key, body }) => JSON.stringify([key, body]))).size).toBe(1);
    expect(starts[0]!.key).toBe('holdfast-exec_test');
    expect(server.of('POST', /conversations$/)).toHaveLength(1);
  });
});

describe('an answer', () => {
  const action = { id: 'act_1', kind: 'approval', title: 'Deploy?', payload: { to: 'production' } };

  test('is on record before it is sent, and is sent by the next attempt under the same key', async () => {
    server.interfere = ({ path }, response) =>
      path.endsWith(':respond') && server.of('POST', /:respond$/).length < 3 && answer(response, 503, {});
    const first = attempt({ answer: () => ({ approved: true }) });
    server.pendingActions = [action];
    server.push('action.required', action);
    await eventually(() => server.of('POST', /:respond$/).length > 0);
    first.abort(new HandedOver('lost'));
    await first.result.catch(() => undefined);
    const second = attempt({ attempt: 2, resume: { journal: journalOf(first) } });
    await eventually(() => server.of('POST', /:respond$/).length >= 3);
    server.push('action.responded', { actionId: 'act_1', approved: true });
    server.push('run.completed', {});
    await second.result;
    const sent = server.of('POST', /act_1:respond$/);
    expect(new Set(sent.map(({ key }) => key)).size).toBe(1);
    expect(sent.every(({ body }) => body.approved === true)).toBe(true);
    // Nobody is asked again.
    expect(second.all('ask')).toEqual([]);
  });

  test('that the other end refuses is asked for again; one that came too late is told of', async () => {
    server.interfere = ({ path, body }, response) => {
      if (!path.endsWith(':respond')) return false;
      if (path.includes('act_2')) return answer(response, 409, { code: 'ACTION_ALREADY_RESOLVED', message: 'late' });
      return body.value === 'bad' && answer(response, 400, { code: 'VALIDATION_ERROR', message: 'not that' });
    };
    const answers = ['bad', 'good', 'late'];
    const one = attempt({ answer: () => ({ value: answers.shift()! }) });
    server.push('action.required', { id: 'act_1', kind: 'input', title: 'Which?' });
    await eventually(() => server.of('POST', /:respond$/).length === 2);
    server.push('action.required', { id: 'act_2', kind: 'input', title: 'And?' });
    await eventually(() => one.all('native').length === 3);
    server.push('run.completed', {});
    await one.result;
    expect(one.all('native').slice(1)).toMatchObject([
      { name: 'remote.answer_refused', actionId: 'act_1', code: 'VALIDATION_ERROR' },
      { name: 'remote.answer_refused', actionId: 'act_2', code: 'ACTION_ALREADY_RESOLVED' },
    ]);
    const [bad, good] = server.of('POST', /act_1:respond$/);
    expect(bad!.key).not.toBe(good!.key);
  });
});

describe('the token', () => {
  test('goes to the other end alone, and is in nothing that comes back', async () => {
    server.push('output.text.delta', { text: `it is ${TOKEN.slice(0, 9)}` });
    server.push('output.text.delta', { text: `${TOKEN.slice(9)}!` });
    server.push('provider.event', { name: 'x.headers', all: { authorization: `Bearer ${TOKEN}` } });
    server.push('artifact.created', { id: 'a', name: TOKEN, mediaType: 'x/y', metadata: { TOKEN } });
    server.push('run.failed', { code: 'PROVIDER_ERROR', message: `refused Bearer ${TOKEN}` });
    const one = attempt();
    const error = await one.result.catch((thrown) => thrown);
    expect(error).toMatchObject({ code: 'PROVIDER_ERROR', message: 'refused Bearer [redacted]' });
    expect(JSON.stringify(one.did)).not.toContain(TOKEN);
    expect(one.text).toBe('it is [redacted]!');
    expect(server.requests.every(({ authorization }) => authorization === `Bearer ${TOKEN}`)).toBe(true);
  });

  test('does not follow a redirect', async () => {
    const other = await SmallServer.start();
    server.interfere = (_, response) => answer(response, 307, {}, { location: `${other.url}/v1/runtime` });
    await expect(attempt().result).rejects.toThrow('a redirect, which is not followed');
    expect(other.requests).toEqual([]);
    await other.kill();
  });

  test('that is refused is said, and repeated to nobody', async () => {
    server.interfere = (_, response) =>
      answer(response, 401, { code: 'UNAUTHENTICATED', message: `no such token: ${TOKEN}` });
    const error = await attempt().result.catch((thrown) => thrown);
    expect(error).toBeInstanceOf(HoldfastError);
    expect(error.message).toBe(
      'the remote runtime: GET /v1/runtime was answered with 401 UNAUTHENTICATED: no such token: [redacted]',
    );
    expect(server.requests).toHaveLength(1);
  });
});

describe('what cannot get better ends it', () => {
  test.each([
    [
      'a promise that does not hold there',
      { capabilities: { 'action.input': 'degraded' } },
      /action\.input is degraded, not native/,
    ],
    ['no such provider', { provider: 'somebody' }, /no provider somebody; it has: worker/],
  ])(
    '%s: before anything is started',
    async (_, { capabilities, provider }: { capabilities?: object; provider?: string }, message) => {
      Object.assign(server.capabilities, capabilities);
      const promised = { 'action.input': 'native' } as const;
      await expect(attempt({}, { capabilities: promised, provider: provider ?? 'worker' }).result).rejects.toThrow(
        message,
      );
      expect(server.requests.map(({ path }) => path)).toEqual(['/v1/runtime']);
    },
  );

  test('a server that leaves out events for good, and its execution is cancelled', async () => {
    said(1);
    server.interfere = ({ path }, response) => {
      if (!path.includes('/events')) return false;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`id: 5\ndata: {"sequence":5,"type":"output.text.delta","data":{"text":"x"}}\n\n`);
      return true;
    };
    await expect(attempt().result).rejects.toThrow('the remote log goes from 0 to 5');
    expect(server.of('POST', /:cancel$/)).toHaveLength(1);
  });

  test('a server that stays away, within the time that it may', async () => {
    const one = attempt({}, { unreachableMs: 700 });
    await eventually(() => server.of('GET', /events/).length === 1);
    await server.kill();
    const error = await one.result.catch((thrown) => thrown);
    expect(error.code).toBe('RUNTIME_UNAVAILABLE');
    expect(error.message).toMatch(/was out of reach for .*ECONNREFUSED/);
  }, 20_000);

  test.each([
    ['JSON instead of a stream', { 'content-type': 'application/json' }, '{}', /answered with application\/json/],
    ['an event that is none', { 'content-type': 'text/event-stream' }, 'id: 1\ndata: 42\n\n', /an event is not what/],
    ['an endless frame', { 'content-type': 'text/event-stream' }, `data: ${'x'.repeat(5 * 1024 * 1024)}`, /more than/],
  ])('%s', async (_, headers, body, message) => {
    server.interfere = ({ path }, response) => path.includes('/events') && answer(response, 200, body, headers);
    await expect(attempt().result).rejects.toThrow(message);
  });
});

describe('events that our log cannot hold as they are', () => {
  test('are told of', async () => {
    server.push('provider.event', { name: 'runtime.recovered', attempt: 2, resumedFrom: 7 });
    server.push('provider.event', { name: 'x.large', body: 'x'.repeat(200_000) });
    server.push('provider.event', { name: 'no proper name' });
    server.push('of.the.future', { what: 'ever' });
    server.push('artifact.created', { id: 'not:an id', name: 'a', mediaType: 'x/y', uri: 'x:1', metadata: { k: 1 } });
    server.push('artifact.created', { id: 'b', name: 'b'.repeat(501), mediaType: 'x/y' });
    server.push('artifact.created', { id: 'c', name: 'c', mediaType: 'x/y', metadata: { k: 'x'.repeat(9_000) } });
    server.push('run.completed', {});
    const one = attempt();
    await one.result;
    const artifact = { name: 'remote.event_dropped', event: 'artifact.created' };
    expect(one.all('native').slice(1)).toEqual([
      { name: 'remote.runtime.recovered', attempt: 2, resumedFrom: 7 },
      { name: 'remote.event_dropped', sequence: 2, event: 'x.large', why: expect.stringMatching(/takes \d+ bytes/) },
      { name: 'remote.event_dropped', sequence: 3, event: 'no proper name', why: 'it has no proper name' },
      { ...artifact, sequence: 6, why: expect.stringMatching(/^name: /) },
      { ...artifact, sequence: 7, why: expect.stringMatching(/metadata takes \d+ bytes/) },
    ]);
    expect(one.all('artifact')).toMatchObject([{ id: expect.stringMatching(/^art_/), name: 'a', metadata: { k: 1 } }]);
  });
});

describe('stopping', () => {
  test('passes the cancel on, repeats it until it is taken, and waits for its confirmation', async () => {
    let refused = 0;
    server.interfere = ({ path }, response) =>
      path.endsWith(':cancel') && ++refused < 3 && answer(response, 503, { code: 'RUNTIME_UNAVAILABLE' });
    const one = attempt();
    said(1);
    await eventually(() => lines(one).length === 1);
    one.abort(new DOMException('enough', 'AbortError'));
    await eventually(() => server.of('POST', /:cancel$/).length === 3);
    expect(server.of('POST', /:cancel$/)[2]!.body).toEqual({ reason: 'enough' });
    const settled = one.result.then(() => 'settled');
    expect(await Promise.race([settled, new Promise((resolve) => setTimeout(resolve, 300, 'waits'))])).toBe('waits');
    server.push('run.cancelled', { confirmation: 'forced' });
    expect(await one.result).toEqual({ forced: true });
  });

  test('stops also what was being started at that moment', async () => {
    let held: (() => void) | undefined;
    server.interfere = ({ method, path }, response) => {
      if (method !== 'POST' || path !== '/v1/executions' || held !== undefined) return false;
      held = () => answer(response, 202, { id: 'exec_there', state: 'queued' });
      return true;
    };
    const one = attempt();
    await eventually(() => held !== undefined);
    one.abort();
    held?.();
    await eventually(() => server.of('POST', /:cancel$/).length === 1);
    server.push('run.cancelled', { confirmation: 'not_running' });
    expect(await one.result).toEqual({});
  });

  test('of the other end alone is a failure here', async () => {
    const one = attempt();
    server.push('run.cancelled', { reason: 'an operator', confirmation: 'cooperative' });
    await expect(one.result).rejects.toThrow('the remote execution was cancelled at the other end: an operator');
  });
});

test('an id that would lead to another path is none', () => {
  for (const id of ['.', '..', 'a/b', 'a%2Fb', ''])
    expect(() => read(conversationReply, { id }, 'it')).toThrow(/not what the contract says/);
  expect(read(conversationReply, { id: '...a' }, 'it')).toEqual({ id: '...a' });
});

test('what is wrong with the configuration is said at once', () => {
  const good = { baseURL: 'https://agents.example', provider: 'worker' };
  expect(() => remoteProvider({ ...good, baseURL: 'ftp://x' })).toThrow(/must be an http or https address/);
  expect(() => remoteProvider({ ...good, baseURL: 'https://me:secret@x' })).toThrow(/without query, fragment and cred/);
  expect(() => remoteProvider({ ...good, tokenEnv: 'HOLDFAST_TEST_NOT_SET' })).toThrow(
    /HOLDFAST_TEST_NOT_SET is not set/,
  );
  const plain = { ...good, baseURL: 'http://agents.example', tokenEnv: 'HOLDFAST_TEST_REMOTE_TOKEN' };
  expect(() => remoteProvider(plain)).toThrow(/token over plain HTTP/);
  expect(() => remoteProvider({ ...plain, insecure: true })).not.toThrow();
  expect(remoteProvider(good).config.safeParse({ anything: [1] }).success).toBe(true);
});
