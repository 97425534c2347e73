/** Requests that are wrong, or unusual: each gets one clear answer, in JSON, and never a 500. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Execution } from '../../protocol/execution.js';
import { Cluster } from '../support/cluster.js';
import { Harness } from './harness.js';
import { RawStream } from './raw.js';

let cluster: Cluster;
let gateway: Harness;
let ended: Execution;
let last: number;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker();
  gateway = await Harness.start({ client: cluster.client });
  ended = await gateway.run(cluster, [{ say: 'done' }]);
  last = (await cluster.log(ended.id)).length;
});

afterAll(async () => {
  await gateway.gateway.close(0);
  await cluster.stop();
});

const JSON_TYPE = { 'content-type': 'application/json' };

async function refused(method: string, path: string, options: Parameters<Harness['call']>[2] = {}): Promise<string> {
  const { status, body } = await gateway.call(method, path, options);
  expect(JSON.stringify(body)).not.toMatch(/\bat \S+ \(|node_modules|\.ts:/);
  return `${status} ${body.code}`;
}

/** What the server answers to bytes. */
async function raw(bytes: string): Promise<string> {
  const { port } = new URL(gateway.url);
  const socket = connect(Number(port), '127.0.0.1');
  let answer = '';
  socket.on('data', (data) => {
    answer += data.toString('latin1');
  });
  socket.on('error', () => undefined);
  socket.write(bytes);
  await Promise.race([once(socket, 'close'), new Promise((resolve) => setTimeout(resolve, 3_000))]);
  socket.destroy();
  return answer;
}

describe('a body', () => {
  const start = (raw: string | Uint8Array, headers: Record<string, string> = JSON_TYPE) =>
    refused('POST', '/v1/executions', { raw, headers });

  it('must be JSON by its media type', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', 'json', 'text/json'])
      expect(await start('{}', { 'content-type': type })).toBe('415 UNSUPPORTED_MEDIA_TYPE');
    expect(await start('{}', { 'content-type': 'application/json; charset=utf-16' })).toBe(
      '415 UNSUPPORTED_MEDIA_TYPE',
    );
    expect(await start('{}', { ...JSON_TYPE, 'content-encoding': 'gzip' })).toBe('415 UNSUPPORTED_MEDIA_TYPE');
    for (const type of ['application/json; charset=UTF-8', 'Application/JSON', 'application/vnd.x+json'])
      expect(await start('{}', { 'content-type': type })).toBe('400 VALIDATION_ERROR');
  });

  it('must be JSON that can be kept exactly, and says what is not', async () => {
    const bad = ['{', '{"a":}', '[]', 'null', '"x"', '{"input":1e999}', '{"input":12345678901234567890}', '\0'];
    for (const text of bad) expect(await start(text)).toBe('400 VALIDATION_ERROR');
    expect(await start(Buffer.from([0x7b, 0xff, 0x7d]))).toBe('400 VALIDATION_ERROR');
    const message = async (text: string): Promise<string> =>
      (await gateway.call('POST', '/v1/executions', { raw: text, headers: JSON_TYPE })).body.message;
    expect(await message('{"input":{"__proto__":1}}')).toContain('"__proto__"');
    expect(await message('{"__proto__":1}')).toContain('"__proto__"');
    expect(await message('{"input":9007199254740993}')).toContain('input: integers beyond');
    expect(await message('{"conversationId":"c","providerId":"p","input":1,"unknownField":1}')).toContain(
      'unknownField',
    );
    expect(await message('{"secret-canary')).not.toContain('secret-canary');
  });

  it('is refused when it is nested 20,000 deep, and kept whole when 100 deep; a byte order mark is fine', async () => {
    const nested = (depth: number): string => `${'['.repeat(depth)}1${']'.repeat(depth)}`;
    expect(await start(`{"input":${nested(20_000)}}`)).toBe('400 VALIDATION_ERROR');
    expect(await start('['.repeat(1_000_000))).toBe('400 VALIDATION_ERROR');
    const { body: conversation } = await gateway.post('/v1/conversations');
    const text = `\uFEFF{"conversationId":"${conversation.id}","providerId":"scripted","input":${nested(100)}}`;
    const { status, body } = await gateway.call('POST', '/v1/executions', { raw: text, headers: JSON_TYPE });
    expect(status).toBe(202);
    expect(JSON.stringify(body.input)).toBe(nested(100));
  });

  it('is limited, whether it says its size or not', async () => {
    const big = `{"input":"${'x'.repeat(1024 * 1024)}"}`;
    expect(await start(big)).toBe('413 PAYLOAD_TOO_LARGE');
    const chunk = `10000\r\n${'x'.repeat(0x10000)}\r\n`;
    const answer = await raw(
      `POST /v1/executions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunk.repeat(20)}`,
    );
    expect(answer).toMatch(/^HTTP\/1.1 413 [\s\S]*PAYLOAD_TOO_LARGE/);
    expect(await start(`{"input":"${'x'.repeat(600 * 1024)}"}`)).toBe('400 VALIDATION_ERROR');
  });

  it('may be missing, empty or {}: alike', async () => {
    for (const options of [{}, { raw: '' }, { raw: '', headers: { 'content-type': 'text/plain' } }, { body: {} }]) {
      expect((await gateway.call('POST', '/v1/conversations', options)).status).toBe(201);
      expect(await refused('POST', '/v1/executions', options)).toBe('400 VALIDATION_ERROR');
      expect((await gateway.call('POST', `/v1/executions/${ended.id}:cancel`, options)).status).toBe(200);
    }
  });
});

describe('a cursor', () => {
  const cursors = ['-1', '1.5', '', '%20', '1e2', '+1', 'NaN', '99999999999999999', '9007199254740993', '0x1', 'abc'];

  it('that is none is refused, in a page and in a stream', async () => {
    const path = `/v1/executions/${ended.id}/events`;
    for (const cursor of cursors)
      for (const accept of ['application/json', 'text/event-stream'])
        expect(await refused('GET', `${path}?after=${cursor}`, { headers: { accept } })).toBe('400 VALIDATION_ERROR');
    for (const query of ['after=1&after=2', 'after[]=1', 'After=1', 'limit=0', 'limit=10001', '__proto__=1'])
      expect(await refused('GET', `${path}?${query}`)).toBe('400 VALIDATION_ERROR');
    for (const id of ['-1', '1.5', 'abc', `${ended.id}:1`, String(last + 1)])
      expect(await refused('GET', path, { headers: { accept: 'text/event-stream', 'last-event-id': id } }), id).toBe(
        '400 VALIDATION_ERROR',
      );
    const beyond = await gateway.get(`${path}?after=${last + 1}`);
    expect(beyond).toMatchObject({ status: 400, body: { details: { lastSequence: last } } });
    expect((await gateway.get(`${path}?after=${last}`)).body).toEqual({ events: [], nextCursor: last });
    expect(await refused('GET', `${path}?limit=1`, { headers: { accept: 'text/event-stream' } })).toMatch(/^400/);
  });
});

describe('a path', () => {
  it('with an id of other characters is refused with those that may be', async () => {
    for (const id of [
      'a%2Fb',
      'a%25',
      'a%23',
      'a%3Fb',
      'a%20b',
      'caf%C3%A9',
      'cafe%CC%81',
      "a'b",
      'a:b',
      '%E0%A4',
      '..%2f',
    ]) {
      const { status, body } = await gateway.get(`/v1/executions/${id}/events`);
      expect(status).toBe(400);
      expect(body.message).toContain('A–Z');
    }
  });

  it('that is none is NOT_FOUND, and an id that is not there too', async () => {
    for (const path of [
      '/',
      '/v2',
      '/v1/executions/',
      '/v1/executions/exec_x/',
      '/v1/executions/exec_x:pause',
      '/healthz/x',
    ])
      expect(await refused('GET', path)).toBe('404 NOT_FOUND');
    for (const path of [
      '/v1/executions/exec_none',
      '/v1/executions/missing',
      '/v1/executions/exec_none/events',
      '/v1/executions/exec_none/artifacts',
      '/v1/executions/exec_none/actions',
      '/v1/conversations/conv_none',
    ])
      expect(await refused('GET', path)).toBe('404 NOT_FOUND');
    expect(await refused('GET', '/v1/executions/exec_none/events', { headers: { accept: 'text/event-stream' } })).toBe(
      '404 NOT_FOUND',
    );
    expect(await refused('POST', '/v1/executions/exec_none:cancel')).toBe('404 NOT_FOUND');
    expect(await refused('POST', '/v1/executions/exec_none:readToken')).toBe('404 NOT_FOUND');
    expect(await refused('POST', '/v1/executions/exec_none/actions/act_x:respond', { body: { approved: true } })).toBe(
      '404 NOT_FOUND',
    );
  });

  it('says which methods it takes', async () => {
    const { headers, body } = await gateway.call('DELETE', `/v1/executions/${ended.id}`);
    expect(body.code).toBe('METHOD_NOT_ALLOWED');
    expect(headers.get('allow')).toBe('GET, HEAD, OPTIONS');
    for (const method of ['GET', 'PUT', 'PATCH', 'PROPFIND'])
      expect(await refused(method, `/v1/executions/${ended.id}:cancel`)).toBe('405 METHOD_NOT_ALLOWED');
    const options = await gateway.call('OPTIONS', `/v1/executions/${ended.id}/events`);
    expect(options).toMatchObject({ status: 204 });
    expect((await gateway.call('HEAD', `/v1/executions/${ended.id}`)).status).toBe(200);
  });
});

describe('what the provider or the caller got wrong', () => {
  it('has the code of the contract', async () => {
    const conversationId = (await gateway.post('/v1/conversations')).body.id;
    const start = (more: object) =>
      refused('POST', '/v1/executions', { body: { conversationId, providerId: 'scripted', input: 'x', ...more } });
    expect(await start({ providerId: 'nobody' })).toBe('404 PROVIDER_NOT_FOUND');
    expect(await start({ conversationId: 'conv_none' })).toBe('404 NOT_FOUND');
    expect(await start({ requiredCapabilities: ['extension.sandbox'] })).toBe('422 CAPABILITY_UNSUPPORTED');
    expect(await start({ config: { steps: [{ nonsense: 1 }] } })).toBe('400 VALIDATION_ERROR');
    expect(await start({ timeoutSeconds: 0 })).toBe('400 VALIDATION_ERROR');
    expect(await start({ idempotencyKey: '' })).toBe('400 VALIDATION_ERROR');
    expect(await refused('POST', '/v1/conversations', { body: { metadata: { a: 'x'.repeat(17_000) } } })).toBe(
      '400 VALIDATION_ERROR',
    );
    expect(await refused('GET', '/v1/executions?state=nonsense')).toBe('400 VALIDATION_ERROR');
    expect(await refused('GET', '/v1/executions?after=yesterday')).toBe('400 VALIDATION_ERROR');
    expect(await refused('GET', `/v1/executions/${ended.id}?waitSeconds=301`)).toBe('400 VALIDATION_ERROR');
  });
});

describe('what is hardly HTTP', () => {
  it('is refused in JSON, and the connection closed', async () => {
    for (const bytes of [
      'nonsense\r\n\r\n',
      'FROB /v1/runtime HTTP/1.1\r\nHost: localhost\r\n\r\n',
      'GET /v1/runtime HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n',
    ])
      expect(await raw(bytes)).toMatch(/^HTTP\/1.1 400 [\s\S]*application\/json[\s\S]*"code":"VALIDATION_ERROR"/);
    expect(await raw(`GET /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`)).toMatch(/PAYLOAD_TOO_LARGE/);
    for (const target of ['http://[', '//', '/\\x', 'x'])
      expect(await raw(`GET ${target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)).toMatch(
        /^HTTP\/1.1 40[034] [\s\S]*"code"/,
      );
    expect(await raw('TRACE /v1/runtime HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')).toMatch(
      /^HTTP\/1.1 405 [\s\S]*METHOD_NOT_ALLOWED/,
    );
  });

  it('HEAD, OPTIONS and unknown methods on a stream end at once and leave nothing open', async () => {
    const { id } = await gateway.run(cluster, [{ hang: true }]);
    for (const [method, status] of [
      ['HEAD', 200],
      ['OPTIONS', 204],
      ['DELETE', 405],
      ['POST', 405],
    ] as const) {
      const stream = await RawStream.open(gateway.url, `/v1/executions/${id}/events`, { method });
      await stream.until(() => stream.status !== 0, 5_000);
      expect([method, stream.status]).toEqual([method, status]);
      stream.socket.destroy();
    }
    expect(gateway.gateway.streams).toBe(0);
    expect(cluster.client.load.followed).toBe(0);
    await gateway.post(`/v1/executions/${id}:cancel`);
  });

  it('past the most streams at once is refused, also when all come together', async () => {
    const { id } = await gateway.run(cluster, [{ hang: true }]);
    const small = await Harness.start({ client: cluster.client, maxStreams: 2 });
    const path = `/v1/executions/${id}/events`;
    const streams = await Promise.all(Array.from({ length: 12 }, () => RawStream.open(small.url, path)));
    await Promise.all(streams.map((stream) => stream.until(() => stream.status !== 0)));
    expect(streams.map(({ status }) => status).sort()).toEqual([200, 200, ...Array<number>(10).fill(429)]);
    expect(small.gateway.streams).toBe(2);
    for (const { socket } of streams) socket.destroy();
    // What was given back can be taken again.
    await expect.poll(() => small.gateway.streams).toBe(0);
    const again = await RawStream.open(small.url, path);
    await again.until(() => again.status === 200);
    again.socket.destroy();
    await gateway.post(`/v1/executions/${id}:cancel`);
    await small.gateway.close(0);
  });
});
