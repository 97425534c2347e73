/** Whatever is asked, nothing gets an answer in the 500s but for 502 and 503, and each answer is in the document. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Execution } from '../../protocol/execution.js';
import { Cluster } from '../support/cluster.js';
import { Harness } from './harness.js';

let cluster: Cluster;
let gateway: Harness;
let waiting: Execution;
let actionId: string;
let conversationId: string;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker();
  gateway = await Harness.start({ client: cluster.client });
  waiting = await gateway.run(cluster, [{ approve: { title: 'ok?' } }]);
  actionId = (await gateway.action(waiting.id)).id;
  conversationId = (await gateway.post('/v1/conversations')).body.id;
});

afterAll(async () => {
  await gateway.gateway.close(0);
  await cluster.stop();
});

const RUNS = { numRuns: 80, endOnFailure: true } as const;

/** Anything JSON can say, with a liking for what goes wrong. */
const json = fc.oneof(
  fc.jsonValue({ maxDepth: 4 }),
  fc.constantFrom<unknown>(null, '', 0, -1, 1.5, 1e308, [], {}, true, '\u0000', '\ud800', 'x'.repeat(300), '__proto__'),
);

/** An object with some of these keys right, some wrong, some missing, and some of its own. */
function around(right: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Record<string, unknown>> {
  const fields = Object.fromEntries(
    Object.entries(right).map(([key, value]) => [key, fc.oneof({ arbitrary: value, weight: 3 }, json)]),
  );
  const known = fc.record(fields, { requiredKeys: [] });
  const odd = fc.dictionary(fc.oneof(fc.string(), fc.constantFrom('constructor', 'toString', 'a.b')), json, {
    maxKeys: 1,
  });
  return fc.oneof(
    { arbitrary: known, weight: 4 },
    fc.tuple(known, odd).map(([a, b]) => ({ ...a, ...b })),
  );
}

async function holds(method: string, path: string, options: Parameters<Harness['call']>[2] = {}): Promise<void> {
  const { status, body } = await gateway.call(method, path, options);
  if (status >= 500 && status !== 502 && status !== 503)
    throw new Error(`${method} ${path} ${JSON.stringify(options)}: ${status} ${JSON.stringify(body)}`);
  expect(JSON.stringify(body) ?? '').not.toMatch(/node_modules|\.ts:\d/);
}

describe('no request gets a 5xx', () => {
  it('to create a conversation', async () => {
    const body = around({ metadata: fc.dictionary(fc.string(), json) });
    await fc.assert(
      fc.asyncProperty(body, (value) => holds('POST', '/v1/conversations', { body: value })),
      RUNS,
    );
  });

  it('to start an execution', async () => {
    const body = around({
      conversationId: fc.constant(conversationId),
      providerId: fc.constantFrom('scripted', 'nobody'),
      input: json,
      requiredCapabilities: fc.array(fc.constantFrom('action.approval', 'x', '', 'extension.mcp'), { maxLength: 3 }),
      config: fc.oneof(fc.constant({ steps: [] }), fc.record({ steps: fc.array(json, { maxLength: 2 }) })),
      metadata: fc.dictionary(fc.string(), json, { maxKeys: 2 }),
      idempotencyKey: fc.string({ maxLength: 210 }),
      timeoutSeconds: fc.oneof(fc.integer(), fc.double()),
    });
    await fc.assert(
      fc.asyncProperty(body, (value) => holds('POST', '/v1/executions', { body: value })),
      RUNS,
    );
  });

  it('to answer, cancel, or get a token', async () => {
    const answer = around({ approved: fc.constantFrom('yes', 1, null), value: json, metadata: json });
    const paths = fc.constantFrom(
      `/v1/executions/${waiting.id}/actions/${actionId}:respond`,
      `/v1/executions/${waiting.id}/actions/act_none:respond`,
      `/v1/executions/exec_none/actions/${actionId}%3Arespond`,
      '/v1/executions/exec_none:cancel',
      `/v1/executions/${waiting.id}:readToken`,
    );
    await fc.assert(
      fc.asyncProperty(paths, answer, (path, body) => holds('POST', path, { body })),
      RUNS,
    );
    const cancel = around({ reason: fc.string({ maxLength: 5_000 }) });
    await fc.assert(
      fc.asyncProperty(cancel, (body) => holds('POST', '/v1/executions/exec_none:cancel', { body })),
      { numRuns: 30 },
    );
  });

  it('with bytes for a body', async () => {
    const raw = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.string().map((text) => Buffer.from(text)),
    );
    const type = fc.constantFrom('application/json', 'application/json;charset=utf-8', 'text/plain', 'a/b;charset', '');
    await fc.assert(
      fc.asyncProperty(fc.constantFrom('/v1/executions', '/v1/conversations'), raw, type, (path, bytes, contentType) =>
        holds('POST', path, { raw: bytes, headers: { 'content-type': contentType } }),
      ),
      RUNS,
    );
  });

  it('with any path, query and headers', async () => {
    const names = fc.constantFrom(
      'after',
      'limit',
      'state',
      'pageToken',
      'before',
      'order',
      'waitSeconds',
      'providerId',
      'x[]',
    );
    const value = fc.oneof(
      fc.string(),
      fc.constantFrom('1', '0', '-1', 'running', 'oldest', '2026-01-01T00:00:00Z', "' OR 1=1", '%', '9'.repeat(30)),
    );
    const query = fc.array(fc.tuple(names, value), { maxLength: 2 }).map((pairs) => {
      // A long poll would take its time.
      const kept = pairs.filter(([name, text]) => name !== 'waitSeconds' || !/^\d+$/.test(text) || text === '0');
      return kept.map(([name, text]) => `${name}=${encodeURIComponent(text)}`).join('&');
    });
    const segment = fc.oneof(
      fc.constantFrom(
        waiting.id,
        conversationId,
        'exec_none',
        'events',
        'actions',
        'executions',
        '..',
        ':cancel',
        '@cancel',
      ),
      fc.string({ maxLength: 12 }).map((text) => encodeURIComponent(text)),
      fc.constantFrom('%', '%2F', '%00', '%C3%A9', "'", '"', '*', '(', '__proto__', 'constructor'),
    );
    const path = fc.oneof(
      fc.array(segment, { maxLength: 4 }).map((parts) => `/v1/${parts.join('/')}`),
      fc.constantFrom(
        '/v1/executions',
        '/v1/actions',
        `/v1/executions/${waiting.id}`,
        `/v1/executions/${waiting.id}/events`,
        `/v1/conversations/${conversationId}/executions`,
      ),
    );
    const printable = fc.string({ maxLength: 20 }).map((text) => text.replaceAll(/[^ -~\xa1-\xff]/g, '').trim());
    const headers = fc.record(
      {
        'last-event-id': printable,
        'idempotency-key': printable,
        'x-request-id': printable,
        accept: fc.constant('application/json'),
      },
      { requiredKeys: ['accept'] },
    );
    const method = fc.constantFrom('GET', 'GET', 'GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS');
    await fc.assert(
      fc.asyncProperty(method, path, query, headers, (verb, where, search, given) =>
        holds(verb, search === '' ? where : `${where}?${search}`, { headers: given }),
      ),
      { ...RUNS, numRuns: 300 },
    );
  });

  it('for a stream with any cursor', async () => {
    const cursor = fc.oneof(fc.string({ maxLength: 8 }), fc.constantFrom('0', '1', '-1', '9999', '1e3', ' 1', '01'));
    const { id } = await gateway.run(cluster, [{ say: 'x' }]);
    await cluster.client.waitForTerminal(id);
    await fc.assert(
      fc.asyncProperty(cursor, cursor, async (after, last) => {
        const header = last.replaceAll(/[^ -~]/g, '').trim();
        await holds('GET', `/v1/executions/${id}/events?after=${encodeURIComponent(after)}`, {
          headers: { accept: 'text/event-stream', ...(header === '' ? {} : { 'last-event-id': header }) },
        });
      }),
      RUNS,
    );
  });
});
