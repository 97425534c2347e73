/** Who gets in, and what stays secret. */
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HoldfastClient } from '../../client/client.js';
import { createGateway, parseApiTokens, serveGateway } from '../../gateway/index.js';
import { Cluster } from '../support/cluster.js';
import { Harness } from './harness.js';
import { RawStream } from './raw.js';

const ANN = 'ann-secret-canary-0001';
const ANN_NEW = 'ann-secret-canary-0002';
const BOB = 'bob-secret-canary-0001';

let cluster: Cluster;
let open: Harness;
let ann: Harness;
const clients = new Map<string, Promise<HoldfastClient>>();

function clientFor(tenant: string): Promise<HoldfastClient> {
  const known = clients.get(tenant) ?? cluster.anotherClient({ tenant });
  clients.set(tenant, known);
  return known;
}

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker();
  open = await Harness.start({ client: cluster.client, origins: ['https://app.example'] });
  const tokens = parseApiTokens(`ann:${ANN}, ann:${ANN_NEW}\n bob:${BOB}`);
  ann = await Harness.start({ clientFor, tokens, readTokenSecret: 'shared-secret-canary' }, ANN);
});

afterAll(async () => {
  await Promise.all([open.gateway.close(0), ann.gateway.close(0)]);
  await cluster.stop();
});

function as(token: string | undefined): Record<string, string> {
  return { authorization: token === undefined ? '' : `Bearer ${token}` };
}

/** A request whose Host and Origin are what we say, which fetch would not do. */
async function from(
  headers: Record<string, string>,
  method = 'GET',
  path = '/v1/runtime',
  url = open.url,
): Promise<number> {
  return await new Promise((resolve, reject) => {
    const call = request(`${url}${path}`, { method, headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    call.on('error', reject);
    call.end();
  });
}

describe('a gateway on this machine', () => {
  it('serves its own names only, whatever the port says', async () => {
    for (const host of ['localhost', 'LOCALHOST:1', '127.0.0.1:4310', '[::1]:4310'])
      expect([host, await from({ host })]).toEqual([host, 200]);
    for (const host of ['evil.example', 'localhost.evil.example', '127.0.0.1.evil.example', '10.0.0.1', 'localhost:x'])
      expect([host, (await from({ host })) >= 400]).toEqual([host, true]);
    expect(await from({ host: 'evil.example' }, 'GET', '/docs')).toBe(403);
  });

  it('refuses pages of other sites, and text that needs no permission', async () => {
    const { host } = new URL(open.url);
    expect(await from({ origin: `http://${host}` })).toBe(200);
    for (const origin of [
      'https://evil.example',
      'null',
      `http://${host}.evil.example`,
      'http://localhost:9',
      'file://',
    ])
      expect([origin, await from({ origin }, 'POST', '/v1/conversations')]).toEqual([origin, 403]);
    const text = await open.call('POST', '/v1/conversations', { raw: '{}', headers: { 'content-type': 'text/plain' } });
    expect(text.status).toBe(415);
  });

  it('answers other sites that were named, and only them', async () => {
    const preflight = await fetch(`${open.url}/v1/executions`, {
      method: 'OPTIONS',
      headers: { origin: 'https://app.example', 'access-control-request-method': 'POST' },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers.get('access-control-allow-origin')).toBe('https://app.example');
    const named = await open.get('/v1/executions/exec_none', { origin: 'https://app.example' });
    expect(named.headers.get('access-control-allow-origin')).toBe('https://app.example');
    const none = await open.get('/v1/runtime');
    expect(none.headers.get('access-control-allow-origin')).toBeNull();
    expect((await ann.get('/v1/runtime', { origin: 'https://app.example' })).status).toBe(403);
  });
});

describe('an API token', () => {
  it('is demanded, and compared with all there are', async () => {
    for (const path of ['/v1/runtime', '/v1/executions/exec_x', '/v1/nothing', '/v1/executions/exec_x/events']) {
      const none = await ann.get(path, { authorization: '' });
      expect(none).toMatchObject({ status: 401, body: { code: 'UNAUTHENTICATED' } });
      expect(none.headers.get('www-authenticate')).toContain('Bearer');
    }
    for (const wrong of [`${ANN}x`, ANN.slice(0, -1), 'x', `${ANN} x`, `${BOB}\u00e9`, ANN.toUpperCase()])
      expect((await ann.get('/v1/runtime', as(wrong))).status).toBe(401);
    for (const scheme of [`Basic ${ANN}`, ANN, 'Bearer', 'Bearer '])
      expect((await ann.get('/v1/runtime', { authorization: scheme })).status).toBe(401);
    for (const right of [ANN, ANN_NEW, BOB]) expect((await ann.get('/v1/runtime', as(right))).status).toBe(200);
    expect((await ann.get('/v1/runtime', { authorization: `bearer  ${ANN}` })).status).toBe(200);
    for (const path of ['/healthz', '/readyz', '/docs', '/openapi.json'])
      expect((await fetch(ann.url + path)).status).toBe(200);
  });

  it('reaches its own tenant alone: what another has is not there', async () => {
    const { id, conversationId } = await ann.run(undefined, [{ approve: { title: 'private?' } }]);
    const { id: actionId } = await ann.action(id);
    expect((await ann.get(`/v1/executions/${id}`, as(ANN_NEW))).status).toBe(200);
    for (const path of [
      `/v1/executions/${id}`,
      `/v1/executions/${id}/events`,
      `/v1/executions/${id}/actions`,
      `/v1/executions/${id}/artifacts`,
      `/v1/conversations/${conversationId}`,
      `/v1/conversations/${conversationId}/executions`,
    ])
      expect((await ann.get(path, as(BOB))).status, path).toBe(404);
    const stream = await RawStream.open(ann.url, `/v1/executions/${id}/events`, { headers: as(BOB) });
    await stream.until(() => stream.status === 404);
    stream.socket.destroy();
    expect((await ann.post(`/v1/executions/${id}:cancel`, {}, as(BOB))).status).toBe(404);
    expect((await ann.post(`/v1/executions/${id}:readToken`, {}, as(BOB))).status).toBe(404);
    const answer = `/v1/executions/${id}/actions/${actionId}:respond`;
    expect((await ann.post(answer, { approved: true }, as(BOB))).status).toBe(404);
    const start = { conversationId, providerId: 'scripted', input: 'x' };
    expect((await ann.post('/v1/executions', start, as(BOB))).status).toBe(404);
    await expect.poll(async () => (await ann.get('/v1/actions')).body.actions.length, { timeout: 15_000 }).toBe(1);
    expect((await ann.get('/v1/actions', as(BOB))).body.actions).toEqual([]);
    expect((await ann.get('/v1/executions', as(BOB))).body.executions).toEqual([]);
    expect((await ann.post(`/v1/executions/${id}:cancel`)).status).toBe(200);
  });

  it('that names the tenant "default" has that one, whatever the gateway serves beside', async () => {
    const tokens = parseApiTokens(`default:${BOB} ${ANN}`);
    const both = await Harness.start({ clientFor, tokens, defaultTenant: 'ann' }, ANN);
    try {
      const { id } = await both.run(undefined, [{ say: 'hers' }]);
      expect((await both.get(`/v1/executions/${id}`)).status).toBe(200);
      expect((await ann.get(`/v1/executions/${id}`)).status).toBe(200);
      expect((await both.get(`/v1/executions/${id}`, as(BOB))).status).toBe(404);
    } finally {
      await both.gateway.close(0);
    }
    expect(() => createGateway({ client: cluster.client, defaultTenant: 'ann' })).toThrow(/defaultTenant/);
  });

  it('is well-formed, or the gateway does not start and does not show it', async () => {
    for (const text of [
      'short',
      'no spaces no',
      'ann:tooshort',
      'a b:secret-canary-00000001',
      'bad/tenant:secret-canary-00000001',
    ])
      expect(() => parseApiTokens(text)).toThrow(/API token \d/);
    for (const text of ['secret-canary\u00e9-0000001', 'x!:secret-canary-00000001'])
      expect(() => parseApiTokens(text)).toThrow(
        expect.not.objectContaining({ message: expect.stringContaining('canary') }),
      );
    expect(parseApiTokens('')).toEqual([]);
    const elsewhere = { client: cluster.client, tokens: [{ token: ANN, tenant: 'ann' }] };
    expect(() => createGateway(elsewhere)).toThrow('another tenant');
    expect(() => createGateway({})).toThrow('clientFor');
  });
});

describe('an address that others can reach', () => {
  it('takes tokens, or a plain word, and then callers that use an address or a name that it was given', async () => {
    const options = { client: cluster.client, port: 0, handleSignals: false };
    for (const hostname of ['0.0.0.0', '::', '192.0.2.1', 'gateway.example'])
      await expect(serveGateway({ ...options, hostname })).rejects.toThrow('HOLDFAST_API_TOKENS');
    const insecure = await serveGateway({ ...options, hostname: '0.0.0.0', insecure: true });
    expect((await fetch(`${insecure.url}/v1/runtime`)).status).toBe(200);
    const { port: open } = new URL(insecure.url);
    const called = (host: string) => from({ host }, 'GET', '/v1/runtime', `http://127.0.0.1:${open}`);
    for (const host of ['0.0.0.0', '10.0.0.1:4310', '[2001:db8::1]', 'localhost'])
      expect([host, await called(host)]).toEqual([host, 200]);
    // Whoever owns a name can have it lead here, and the user's browser with it.
    for (const host of ['evil.example', '10.0.0.1.evil.example', 'gateway'])
      expect([host, await called(host)]).toEqual([host, 403]);
    await insecure.close(0);
    const named = await serveGateway({ ...options, hostname: '0.0.0.0', insecure: true, hosts: ['Gateway'] });
    const name = `http://127.0.0.1:${new URL(named.url).port}`;
    const codes = ['gateway:80', '10.0.0.1', 'evil.example'].map((host) => from({ host }, 'GET', '/v1/runtime', name));
    expect(await Promise.all(codes)).toEqual([200, 200, 403]);
    await named.close(0);
    const guarded = await serveGateway({ ...options, hostname: '0.0.0.0', tokens: [{ token: ANN }] });
    expect((await fetch(`${guarded.url}/v1/runtime`)).status).toBe(401);
    expect((await fetch(`${guarded.url}/v1/runtime`, { headers: as(ANN) })).status).toBe(200);
    await guarded.close(0);
    const { port } = new URL(ann.url);
    await expect(serveGateway({ ...options, port: Number(port) })).rejects.toThrow('in use already');
  });
});

describe('a read token', () => {
  it('reads the events of one execution, and nothing else', async () => {
    const { id } = await ann.run(undefined, [{ say: 'x' }]);
    const other = await ann.run(undefined, [{ say: 'y' }]);
    const { body } = await ann.post(`/v1/executions/${id}:readToken`, { ttlSeconds: 60 });
    const left = Date.parse(body.expiresAt) - Date.now();
    expect(left > 50_000 && left <= 60_000).toBe(true);
    const nobody = { authorization: '' };
    const token = `access_token=${body.token}`;
    // fetch sends an empty header as none at all.
    const stream = await RawStream.open(ann.url, `/v1/executions/${id}/events?${token}`);
    await stream.finish();
    expect(stream.events.at(-1)?.type).toBe('run.completed');
    const page = await fetch(`${ann.url}/v1/executions/${id}/events?${token}`);
    expect(page.status).toBe(200);
    for (const path of [
      `/v1/executions/${other.id}/events`,
      `/v1/executions/${id}`,
      `/v1/executions/${id}/actions`,
      '/v1/runtime',
    ])
      expect([400, 403], path).toContain((await fetch(`${ann.url}${path}?${token}`)).status);
    expect((await fetch(`${ann.url}/v1/executions/${id}:cancel?${token}`, { method: 'POST' })).status).not.toBe(200);
    for (const bad of [`${body.token}x`, body.token.slice(1), '.', 'x', '', 'a.b'])
      expect((await fetch(`${ann.url}/v1/executions/${id}/events?access_token=${bad}`)).status, bad).toBe(401);
    expect((await ann.get(`/v1/executions/${id}/events`, nobody)).status).toBe(401);
  });

  it('expires, and ends the stream that it opened: whole, with no event after it and no end that was not', async () => {
    const { id } = await ann.run(undefined, [{ say: 'x' }, { hang: true }]);
    const { body } = await ann.post(`/v1/executions/${id}:readToken`, { ttlSeconds: 2 });
    const path = `/v1/executions/${id}/events?access_token=${body.token}`;
    const stream = await RawStream.open(ann.url, path);
    await stream.finish();
    expect(Date.now()).toBeGreaterThanOrEqual(Date.parse(body.expiresAt));
    expect(stream.events.map(({ type }) => type)).not.toContain('run.cancelled');
    expect(stream.parser.retries.at(-1)).toBeLessThanOrEqual(3_000);
    await expect.poll(() => ann.log.join('')).toContain('"stream":"expired"');
    const answer = await fetch(ann.url + path);
    await ann.post(`/v1/executions/${id}:cancel`);
    expect(answer.status).toBe(401);
    expect(((await answer.json()) as { message: string }).message).toContain('expired');
    for (const ttlSeconds of [0, 3601, 1.5, '60'])
      expect((await ann.post(`/v1/executions/${id}:readToken`, { ttlSeconds })).status).toBe(400);
  });

  it('is taken by every gateway with the same secret, and by no other', async () => {
    const tokens = [{ token: ANN, tenant: 'ann' }];
    const twin = await Harness.start({ clientFor, tokens, readTokenSecret: 'shared-secret-canary' }, ANN);
    const stranger = await Harness.start({ clientFor, tokens }, ANN);
    const { id } = await ann.run(undefined, [{ say: 'x' }]);
    const { body } = await ann.post(`/v1/executions/${id}:readToken`);
    const path = `/v1/executions/${id}/events?access_token=${body.token}`;
    expect((await fetch(twin.url + path)).status).toBe(200);
    expect((await fetch(stranger.url + path)).status).toBe(401);
    await Promise.all([twin.gateway.close(0), stranger.gateway.close(0)]);
  });
});

describe('the log', () => {
  it('has a line for each request, and nothing that is secret', async () => {
    const secret = 'body-secret-canary';
    const { id } = await ann.run(undefined, [{ ask: { title: 'password?' } }], { input: secret });
    const { id: actionId } = await ann.action(id);
    await ann.post(`/v1/executions/${id}/actions/${actionId}:respond`, { value: secret }, { 'x-request-id': 'mine-1' });
    await ann.get(`/v1/executions/${id}?waitSeconds=10`);
    const { body } = await ann.post(`/v1/executions/${id}:readToken`);
    await fetch(`${ann.url}/v1/executions/${id}/events?access_token=${body.token}`, {
      headers: { accept: 'text/event-stream' },
    }).then((response) => response.text());
    await ann.get('/v1/executions', as('wrong-secret-canary'));
    await expect.poll(() => ann.log.length).toBeGreaterThan(10);
    const text = ann.log.join('');
    expect(text).not.toContain('canary');
    expect(text).not.toContain(body.token);
    const lines = ann.log.map((line) => JSON.parse(line));
    const mine = lines.find(({ requestId }) => requestId === 'mine-1');
    expect(mine).toMatchObject({
      method: 'POST',
      route: 'POST /v1/executions/{id}/actions/{actionId}:respond',
      status: 200,
      tenant: 'ann',
    });
    expect(lines.find(({ stream }) => stream !== undefined)).toMatchObject({ stream: 'complete', status: 200 });
    expect(lines.find(({ status }) => status === 401)).toMatchObject({ code: 'UNAUTHENTICATED' });
  });
});
