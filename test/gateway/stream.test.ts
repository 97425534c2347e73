/** The event stream over bare sockets and with a real EventSource: nothing lost, nothing twice, nothing forged. */
import { EventSource } from 'eventsource';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { wantsEventStream } from '../../gateway/accept.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import { Cluster } from '../support/cluster.js';
import { Harness } from './harness.js';
import { FrameParser, RawStream, upTo } from './raw.js';

let cluster: Cluster;
let gateway: Harness;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker();
  gateway = await Harness.start({ client: cluster.client, heartbeatMs: 200 });
});

afterAll(async () => {
  await gateway.gateway.close(0);
  await cluster.stopCompared();
});

const path = (id: string): string => `/v1/executions/${id}/events`;

/** What tries to look like a frame of its own, to readers that split at any of these. */
const FORGED = [
  'a\n\nid: 99\nevent: run.completed\ndata: {}\n\n',
  'b\r\rid: 99\rdata: {}\r\r',
  'c\r\n\r\nid: 99\r\ndata: {}\r\n\r\n',
  'd\u2028\u2028id: 99\u2028data: {}\u2028\u2029',
  'e\u0085id: 99\u0085\u000b\u000c\u001c\u001d\u001e\u0000',
  ': comment\nretry: 1\n\n',
  'ö 漢字 👩‍👩‍👧 \ud83d',
].join('|');

/** All that some reader somewhere takes for the end of a line. */
const LINE_ENDS = new RegExp(`\r\n|[${'\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029'}]`);

describe('a stream', () => {
  it('gives the backlog, then what comes, each event in one frame, and ends after the last', async () => {
    const { id } = await gateway.run(cluster, [{ say: 'live 👋', chunk: 1, everyMs: 20 }]);
    // Whoever offers to take it compressed gets it as it is: a compressor would hold frames back.
    const headers = { 'Accept-Encoding': 'gzip, br, deflate' };
    const stream = await (await RawStream.open(gateway.url, path(id), { headers })).finish();
    const log = await cluster.log(id);
    expect(stream.headers).toMatch(/content-type: text\/event-stream/i);
    expect(stream.headers).toMatch(/cache-control: .*no-transform/i);
    expect(stream.headers).toMatch(/x-accel-buffering: no/i);
    expect(stream.headers).not.toMatch(/content-encoding|content-length/i);
    expect(stream.sequences).toEqual(upTo(log.length));
    expect(stream.parser.frames).toEqual(
      log.map((event) => ({ id: String(event.sequence), event: event.type, data: JSON.stringify(event) })),
    );
    expect(stream.parser.retries).toEqual([2_000]);
  });

  it('is not fooled by what text, titles and names hold, however its bytes are cut', async () => {
    const { id } = await gateway.run(cluster, [
      { say: FORGED },
      { say: FORGED, chunk: 3 },
      { artifact: { name: FORGED.slice(0, 400), mediaType: 'text/plain', metadata: { [FORGED]: FORGED } } },
      { native: { name: 'x.y', [FORGED]: FORGED } },
      { approve: { title: FORGED, payload: { [FORGED]: FORGED } } },
    ]);
    const action = await gateway.action(id);
    await gateway.post(`/v1/executions/${id}/actions/${action.id}:respond`, { approved: true });
    const stream = await (await RawStream.open(gateway.url, path(id), { keep: true })).finish();
    const log = await cluster.log(id);
    expect(stream.events).toEqual(log);
    expect(stream.sequences).toEqual(upTo(log.length));
    const bytewise = new FrameParser();
    for (const byte of stream.bytes) bytewise.push(Uint8Array.of(byte));
    expect(bytewise.frames).toEqual(stream.parser.frames);
    // A reader that takes any of Unicode's line ends for one sees the same fields.
    const lines = stream.bytes.toString('utf8').split(LINE_ENDS);
    expect(lines.filter((line) => /^id:/.test(line))).toEqual(upTo(log.length).map((sequence) => `id: ${sequence}`));
    expect(lines.filter((line) => /^data:/.test(line))).toHaveLength(log.length);
  });

  it('goes on from every cursor: together exactly 1 … N', async () => {
    const { id } = await gateway.run(cluster, [{ say: 'abcdefghij', chunk: 1 }]);
    await cluster.client.waitForTerminal(id);
    const last = (await cluster.log(id)).length;
    for (let cursor = 0; cursor < last; cursor++) {
      for (const [query, headers] of [
        ['', { 'Last-Event-ID': String(cursor) }],
        [`?after=${cursor}`, {}],
        // The header is the newer one: a browser asks for the same address again.
        [`?after=0`, { 'Last-Event-ID': String(cursor) }],
        [`?after=${last}`, { 'Last-Event-ID': String(cursor) }],
      ] as const) {
        const stream = await (await RawStream.open(gateway.url, path(id) + query, { headers })).finish();
        expect(stream.sequences).toEqual(upTo(last, cursor + 1));
      }
    }
    const over = await RawStream.open(gateway.url, path(id), { headers: { 'Last-Event-ID': String(last) } });
    await over.until(() => over.status === 204);
    over.socket.destroy();
    const empty = await (await RawStream.open(gateway.url, `${path(id)}?after=${last}`)).finish();
    expect(empty).toMatchObject({ status: 200, sequences: [] });
    expect(empty.parser.retries).toEqual([3_600_000]);
  });

  it('that is cut again and again, wherever it is, gives each event once', async () => {
    const { id } = await gateway.run(cluster, [{ say: 'x'.repeat(40), chunk: 1, everyMs: 15 }]);
    const got: HoldfastEvent[] = [];
    for (let cuts = 0; ; cuts++) {
      const headers = got.length === 0 ? {} : { 'Last-Event-ID': String(got.at(-1)?.sequence) };
      const stream = await RawStream.open(gateway.url, path(id), { headers });
      await stream.until(() => stream.complete || stream.status === 204 || stream.parser.frames.length > cuts % 4);
      stream.socket.destroy();
      got.push(...stream.events);
      if (stream.complete || stream.status === 204) break;
    }
    expect(got.map(({ sequence }) => sequence)).toEqual(upTo(got.length));
    expect(got).toEqual(await cluster.log(id));
  });

  it('shows that it lives while nothing happens, past the buffers of proxies', async () => {
    const { id } = await gateway.run(cluster, [{ hang: true }]);
    const stream = await RawStream.open(gateway.url, path(id), { keep: true });
    await stream.until(() => stream.parser.comments >= 4, 10_000);
    expect(stream.bytes.length).toBeGreaterThan(3 * 2048);
    stream.socket.destroy();
    await gateway.post(`/v1/executions/${id}:cancel`);
  });

  it('is freed at once when its client goes away', async () => {
    const { id } = await gateway.run(cluster, [{ hang: true }]);
    const streams = await Promise.all(Array.from({ length: 50 }, () => RawStream.open(gateway.url, path(id))));
    for (const stream of streams) await stream.until(() => stream.parser.frames.length > 0);
    expect(gateway.gateway.streams).toBe(50);
    expect(cluster.client.load).toMatchObject({ followed: 1, polls: 1 });
    for (const [index, { socket }] of streams.entries()) index % 2 === 0 ? socket.destroy() : socket.resetAndDestroy();
    await expect.poll(() => gateway.gateway.streams, { timeout: 2_000 }).toBe(0);
    await expect.poll(() => cluster.client.load, { timeout: 2_000 }).toMatchObject({ followed: 0, polls: 0 });
    await gateway.post(`/v1/executions/${id}:cancel`);
  });
});

describe('an EventSource', () => {
  it('gets every event by its type and stops after the end', async () => {
    const { id } = await gateway.run(cluster, [{ say: 'hello', chunk: 1, everyMs: 10 }]);
    const before = gateway.log.length;
    const source = new EventSource(gateway.url + path(id));
    const got: HoldfastEvent[] = [];
    const ids: string[] = [];
    for (const type of ['run.queued', 'run.started', 'output.text.delta', 'output.text.done', 'run.completed'])
      source.addEventListener(type, (message) => {
        got.push(JSON.parse(message.data) as HoldfastEvent);
        ids.push(message.lastEventId);
      });
    await expect.poll(() => source.readyState, { timeout: 20_000 }).toBe(EventSource.CLOSED);
    const log = await cluster.log(id);
    expect(got).toEqual(log);
    expect(ids).toEqual(upTo(log.length).map(String));
    const requests = gateway.log.slice(before).filter((line) => line.includes('/events'));
    expect(requests.map((line) => JSON.parse(line).status)).toEqual([200, 204]);
  });
});

describe('Accept', () => {
  it('is parsed, not searched', async () => {
    const stream = ['text/event-stream', 'text/*', 'Text/Event-Stream; charset=utf-8', 'text/event-stream, */*'];
    stream.push('application/json;q=0.5, text/event-stream', 'application/json, text/event-stream');
    const json = ['*/*', 'application/json', '', 'image/png', 'text/event-stream;q=0', 'text/html, */*;q=0.8'];
    json.push(
      'text/event-stream;q=0.4, application/json;q=0.5',
      'text/event-stream;q=0, text/*',
      'x-text/event-stream',
    );
    json.push('text/event-streams', 'application/json;x="text/event-stream"', 'text/*;q=0.1, application/*');
    for (const accept of stream) expect([accept, wantsEventStream(accept)]).toEqual([accept, true]);
    for (const accept of json) expect([accept, wantsEventStream(accept)]).toEqual([accept, false]);
    const { id } = await gateway.run(cluster, [{ say: 'x' }]);
    await cluster.client.waitForTerminal(id);
    const type = async (accept: string) =>
      (await gateway.get(path(id), { accept })).headers.get('content-type')?.split(';')[0];
    expect(await type('text/*')).toBe('text/event-stream');
    expect(await type('*/*')).toBe('application/json');
  });
});

describe('two gateways side by side', () => {
  it('serve one runtime: started on one, streamed on the other, cancelled on the first', async () => {
    const other = await Harness.start({ client: await cluster.anotherClient() });
    const { id } = await gateway.run(cluster, [{ say: 'x' }, { hang: true }]);
    const stream = await RawStream.open(other.url, path(id));
    await stream.until(() => stream.events.some(({ type }) => type === 'output.text.delta'));
    const cancelled = await gateway.post(`/v1/executions/${id}:cancel`, { reason: 'from the first' });
    expect(cancelled.body.state).toBe('cancelled');
    await stream.finish();
    expect(stream.events.at(-1)?.data).toEqual({ reason: 'from the first', confirmation: 'cooperative' });
    expect((await other.get(`/v1/executions/${id}`)).body).toEqual(cancelled.body);
    await other.gateway.close(0);
  });
});
