import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Inbox } from '../../client/index.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';
import { Harness } from './harness.js';

let cluster: Cluster;
let gateway: Harness;

beforeAll(async () => {
  cluster = await Cluster.start();
  gateway = await Harness.start({ client: cluster.client });
  const early = await gateway.get('/readyz');
  expect(early).toMatchObject({
    status: 503,
    body: { status: 'not_ready', missing: [expect.stringContaining('worker')] },
  });
  await cluster.worker({ pool: PATIENT_POOL });
});

afterAll(async () => {
  await gateway.gateway.close(0);
  await cluster.stop();
});

async function conversation(): Promise<string> {
  return (await gateway.post('/v1/conversations')).body.id;
}

describe('the runtime', () => {
  it('says that it is alive and ready, and what it has', async () => {
    expect((await gateway.get('/healthz')).body).toEqual({ status: 'ok' });
    await expect.poll(async () => (await gateway.get('/readyz')).body).toEqual({ status: 'ready', missing: [] });
    const runtime = (await gateway.get('/v1/runtime')).body;
    expect(runtime).toMatchObject({ name: 'holdfast', protocolVersion: '2026-09-02' });
    expect((await gateway.get('/v1/runtime/capabilities')).body).toEqual({ providers: runtime.providers });
  });
});

describe('a conversation', () => {
  it('is created, read, and closed once and for all', async () => {
    const created = await gateway.post('/v1/conversations', { metadata: { topic: 'x' } });
    expect(created).toMatchObject({ status: 201, body: { metadata: { topic: 'x' }, closed: false } });
    const path = `/v1/conversations/${created.body.id}`;
    expect((await gateway.get(path)).body).toEqual(created.body);
    for (const close of [`${path}:close`, `${path}%3Aclose`])
      expect(await gateway.post(close)).toMatchObject({ status: 200, body: { ...created.body, closed: true } });
    const late = { conversationId: created.body.id, providerId: 'scripted', input: 'x' };
    expect(await gateway.post('/v1/executions', late)).toMatchObject({ status: 409, body: { code: 'INVALID_STATE' } });
    expect((await gateway.post('/v1/conversations/conv_none:close')).status).toBe(404);
    expect((await gateway.post(`${path}:close`, { reason: 'x' })).status).toBe(400);
  });
});

describe('an execution', () => {
  it('is started, waited for and read, with its artifacts', async () => {
    const { id } = await gateway.run(cluster, [
      { say: 'hello' },
      { artifact: { name: 'a.txt', mediaType: 'text/plain' } },
      { artifact: { name: 'b.txt', mediaType: 'text/plain' } },
    ]);
    const ended = await gateway.get(`/v1/executions/${id}?waitSeconds=20`);
    expect(ended.body).toMatchObject({ id, state: 'succeeded', finalOutput: 'hello' });
    const { artifacts } = (await gateway.get(`/v1/executions/${id}/artifacts`)).body;
    expect(artifacts.map(({ name }: { name: string }) => name)).toEqual(['a.txt', 'b.txt']);
    const pages = [];
    for (let after = 0; ; ) {
      const { events, nextCursor } = (await gateway.get(`/v1/executions/${id}/events?after=${after}&limit=2`)).body;
      if (events.length === 0) break;
      pages.push(...events);
      after = nextCursor;
    }
    expect(pages).toEqual(await cluster.log(id));
  });

  it('is waited for no longer than asked, and read as it then is', async () => {
    const { id } = await gateway.run(cluster, [{ hang: true }]);
    const asked = performance.now();
    const waited = await gateway.get(`/v1/executions/${id}?waitSeconds=1`);
    expect(performance.now() - asked).toBeGreaterThan(900);
    expect(waited).toMatchObject({ status: 200, body: { id } });
    expect(['queued', 'starting', 'running']).toContain(waited.body.state);
    const cancelled = await gateway.post(`/v1/executions/${id}:cancel`, { reason: 'enough' });
    expect(cancelled.body.state).toBe('cancelled');
    const again = await gateway.post(`/v1/executions/${id}%3acancel`);
    expect(again).toMatchObject({ status: 200, body: cancelled.body });
  });

  it('that does not listen to its cancel is returned as it is after 2 s: cancelling', async () => {
    const { id } = await gateway.run(cluster, [{ ignoreCancel: true }, { say: 'deaf' }, { hang: true }]);
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    const asked = performance.now();
    const { status, body } = await gateway.post(`/v1/executions/${id}:cancel`);
    expect(performance.now() - asked).toBeGreaterThan(1_900);
    expect([status, body.state]).toEqual([200, 'cancelling']);
  });

  it('returns the original for a repeated key, from header or body, and refuses another request', async () => {
    const request = { conversationId: await conversation(), providerId: 'scripted', input: 'x' };
    const first = await gateway.post('/v1/executions', request, { 'idempotency-key': 'k 1' });
    expect(first.headers.get('idempotency-replayed')).toBeNull();
    const again = await gateway.post('/v1/executions', request, { 'idempotency-key': '"k 1"' });
    expect(again).toMatchObject({ status: 202, body: { id: first.body.id } });
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    const inBody = await gateway.post('/v1/executions', { ...request, idempotencyKey: 'k 1' });
    expect(inBody.body.id).toBe(first.body.id);
    const other = await gateway.post('/v1/executions', { ...request, input: 'y' }, { 'idempotency-key': 'k 1' });
    expect(other).toMatchObject({ status: 409, body: { code: 'IDEMPOTENCY_CONFLICT' } });
    const both = await gateway.post('/v1/executions', { ...request, idempotencyKey: 'a' }, { 'idempotency-key': 'b' });
    expect(both).toMatchObject({ status: 400, body: { code: 'VALIDATION_ERROR' } });
    const odd = await gateway.post('/v1/executions', request, { 'idempotency-key': 'é' });
    expect(odd.body.message).toContain('ASCII');
  });

  it('is answered once: the key gives the first outcome again, another key is too late', async () => {
    const { id } = await gateway.run(cluster, [{ approve: { title: 'ok?' } }, { hang: true }]);
    const action = await gateway.action(id);
    const path = `/v1/executions/${id}/actions/${action.id}:respond`;
    expect(await gateway.post(path, {})).toMatchObject({ status: 400, body: { code: 'VALIDATION_ERROR' } });
    expect((await gateway.post(path, { approved: true }, { 'idempotency-key': 'one' })).body.id).toBe(id);
    expect(await gateway.post(path, { approved: true }, { 'idempotency-key': 'one' })).toMatchObject({ status: 200 });
    const late = await gateway.post(path.replace(':', '%3A'), { approved: false }, { 'idempotency-key': 'two' });
    expect(late).toMatchObject({
      status: 409,
      body: { code: 'ACTION_ALREADY_RESOLVED', details: { how: 'answered' } },
    });
    expect(late.body.details.resolvedAt).toMatch(/Z$/);
    const never = await gateway.post(`/v1/executions/${id}/actions/act_never:respond`, { approved: true });
    expect(never).toMatchObject({ status: 404, body: { code: 'ACTION_NOT_FOUND' } });
    const named = await gateway.post(path, { approved: true }, { 'idempotency-key': 'with space' });
    expect(named.body.message).toContain('A–Z');
    await gateway.post(`/v1/executions/${id}:cancel`);
  });

  it('is listed with filters and page tokens that fit them', async () => {
    const conversationId = await conversation();
    const ids = new Set<string>();
    for (const input of ['a', 'b', 'c'])
      ids.add((await gateway.post('/v1/executions', { conversationId, providerId: 'scripted', input })).body.id);
    const path = `/v1/conversations/${conversationId}/executions`;
    await expect.poll(async () => (await gateway.get(path)).body.executions.length, { timeout: 15_000 }).toBe(3);
    const first = (await gateway.get(`/v1/executions?conversationId=${conversationId}&limit=2`)).body;
    const rest = (
      await gateway.get(
        `/v1/executions?conversationId=${conversationId}&limit=2&pageToken=${encodeURIComponent(first.nextPageToken ?? '')}`,
      )
    ).body;
    const listed = [...first.executions, ...rest.executions].map(({ id }: { id: string }) => id);
    expect(new Set(listed)).toEqual(ids);
    for (const query of [`pageToken=${first.nextPageToken}`, `conversationId=${conversationId}&pageToken=nonsense`])
      expect(await gateway.get(`/v1/executions?${query}`)).toMatchObject({ status: 400 });
    for (const [filter, found] of [
      ['providerId=scripted', 3],
      ['providerId=nobody', 0],
      ['state=awaiting_input', 0],
    ] as const)
      expect((await gateway.get(`${path}?${filter}`)).body.executions, filter).toHaveLength(found);
    const [{ id: newest, createdAt } = { id: '', createdAt: '' }] = first.executions;
    const after = await gateway.get(`/v1/executions?conversationId=${conversationId}&after=${createdAt}`);
    expect(after.body.executions.map(({ id }: { id: string }) => id)).not.toContain(newest);
    const before = await gateway.get(`/v1/executions?conversationId=${conversationId}&before=${createdAt}`);
    expect(before.body.executions).toHaveLength(2);
    expect(await gateway.get('/v1/conversations/conv_none/executions')).toMatchObject({ status: 404 });
  });

  it('stands in the inbox while it waits, oldest first when asked', async () => {
    const titles = ['first?', 'second?', 'third?'];
    const ids: string[] = [];
    for (const title of titles) {
      const { id } = await gateway.run(cluster, [{ approve: { title } }]);
      await gateway.action(id);
      ids.push(id);
    }
    const inbox = async (query: string) => (await gateway.get(`/v1/actions?${query}`)).body;
    const mine = (actions: Inbox['actions']) =>
      actions.filter(({ executionId }) => ids.includes(executionId)).map(({ title }) => title);
    await expect
      .poll(async () => mine((await inbox('state=pending')).actions), { timeout: 15_000 })
      .toEqual(titles.toReversed());
    const oldest = await inbox('order=oldest');
    expect(mine(oldest.actions)).toEqual(titles);
    expect(oldest).toMatchObject({ truncated: false, readAt: expect.stringMatching(/Z$/) });
    const paged: Inbox['actions'][number][] = [];
    for (let token = ''; ; ) {
      const page = await inbox(`order=oldest&limit=1${token === '' ? '' : `&pageToken=${token}`}`);
      paged.push(...page.actions);
      if (page.nextPageToken === undefined) break;
      token = page.nextPageToken;
    }
    expect(mine(paged)).toEqual(titles);
    expect((await gateway.get('/v1/actions?state=done')).status).toBe(400);
    for (const id of ids) await gateway.post(`/v1/executions/${id}:cancel`);
  });
});
