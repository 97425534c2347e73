/** Thousands of streams at once, and a log of 100 MB for a slow reader: all of it arrives, and memory stays bounded. */
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { HoldfastClient } from '../../client/client.js';
import { type DevServer, startDevServer } from '../../dev/server.js';
import { isTerminalEvent } from '../../protocol/event.js';
import { GatewayProcess } from '../gateway/gateway-child.js';
import { RawStream, upTo } from '../gateway/raw.js';
import { PATIENT_POOL } from '../support/cluster.js';
import { WorkerProcess } from '../support/kill.js';

/** How much of the load there is; `HOLDFAST_LOAD=1` takes a quarter of an hour. */
const SCALE = Number(process.env.HOLDFAST_LOAD ?? 0.1);
const scaled = (count: number): number => Math.max(10, Math.round(count * SCALE));
const LANES = 40;
/** What a Temporal server grants by itself to all pollers of a namespace. */
const DEFAULT_POLLS = 1_200;

let server: DevServer;
let worker: WorkerProcess;
let client: HoldfastClient;
let gateway: GatewayProcess;

beforeAll(async () => {
  server = await startDevServer({ dynamicConfig: { 'frontend.namespaceCount': DEFAULT_POLLS } });
  // In a process of its own, so that it is not the readers here who slow it.
  worker = await WorkerProcess.start({ address: server.address, pool: PATIENT_POOL, slots: 500 });
  client = await HoldfastClient.connect({ address: server.address });
});

afterEach(async () => gateway?.kill());

afterAll(async () => {
  await client?.close();
  await worker?.kill();
  await server?.stop();
});

async function inLanes<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) results[index] = await work(index);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  return results;
}

/** Executions that have asked, and hold nothing until they are answered. */
async function waiting(count: number, after: object[] = []): Promise<{ id: string; actionId: string }[]> {
  const conversations = await inLanes(LANES, async () => (await client.createConversation()).id);
  const config = JSON.parse(JSON.stringify({ steps: [{ approve: { title: 'go?' } }, ...after], suspend: true }));
  return await inLanes(count, async (index) => {
    const conversationId = conversations[index % LANES] ?? '';
    const { execution } = await client.startExecution({ conversationId, providerId: 'scripted', input: 'go', config });
    for await (const event of client.events(execution.id))
      if (event.type === 'action.required') return { id: execution.id, actionId: event.data.id };
    throw new Error(`${execution.id} did not ask`);
  });
}

/** A stream that has shown what there was. */
async function opened(id: string): Promise<RawStream> {
  const stream = await RawStream.open(gateway.url, `/v1/executions/${id}/events`);
  await stream.until(() => stream.parser.frames.length >= 3, 120_000);
  return stream;
}

/** Reads them to the end, again with its cursor whoever was sent away, and checks that each is 1 … N. */
async function expectWhole(streams: readonly (readonly [id: string, RawStream])[]): Promise<void> {
  await Promise.all(
    streams.map(async ([id, first]) => {
      const sequences: number[] = [];
      for (let stream = first; ; ) {
        await stream.finish(300_000);
        sequences.push(...stream.sequences);
        const last = stream.events.at(-1);
        if (last !== undefined && isTerminalEvent(last)) break;
        const headers = { 'Last-Event-ID': String(sequences.length) };
        stream = await RawStream.open(gateway.url, `/v1/executions/${id}/events`, { headers });
      }
      expect(sequences).toEqual(upTo(sequences.length));
    }),
  );
}

/** Executions a second from start to end, with nobody watching those. */
async function throughput(count: number): Promise<number> {
  const { id: conversationId } = await client.createConversation();
  const from = performance.now();
  await inLanes(count, async () => {
    const { execution } = await client.startExecution({ conversationId, providerId: 'scripted', input: 'quick' });
    await client.waitForTerminal(execution.id);
  });
  return (count * 1_000) / (performance.now() - from);
}

it(`${10 * scaled(200)} streams over ${scaled(200)} executions all complete`, async () => {
  gateway = await GatewayProcess.start({ address: server.address });
  const executions = await waiting(scaled(200), [{ say: 'x'.repeat(40), chunk: 2, everyMs: 50 }]);
  const before = gateway.memory;
  const of = Array.from({ length: executions.length * 10 }, (_, index) => executions[index % executions.length]!.id);
  const streams = await inLanes(of.length, async (index) => [of[index]!, await opened(of[index]!)] as const);
  const each = ((gateway.memory - before) * 1024) / streams.length;
  console.log(`${streams.length} streams: ${each.toFixed(1)} KiB of the gateway's memory each`);
  // A share of a process that has only just begun says little.
  if (SCALE >= 1) expect(each).toBeLessThan(150);
  const ends = expectWhole(streams);
  await inLanes(executions.length, (index) => {
    const { id, actionId } = executions[index]!;
    return client.respond(id, actionId, { approved: true }, { timeoutMs: 60_000 });
  });
  await ends;
});

it(`${scaled(3_000)} streams over as many executions complete within a server’s default limits; workers are hardly slowed`, async () => {
  gateway = await GatewayProcess.start({ address: server.address });
  const probe = scaled(300);
  await throughput(scaled(100));
  const executions = await waiting(scaled(3_000));
  const alone = await throughput(probe);
  const streams = await inLanes(executions.length, async (index) => {
    const { id } = executions[index]!;
    return [id, await opened(id)] as const;
  });
  const watched = await throughput(probe);
  console.log(`${alone.toFixed(0)} executions/s alone, ${watched.toFixed(0)} under ${streams.length} streams`);
  // The fewer there are, the more it is chance.
  expect(watched / alone).toBeGreaterThan(SCALE >= 1 ? 0.4 : 0.2);
  const ends = expectWhole(streams);
  await inLanes(executions.length, (index) => {
    const { id, actionId } = executions[index]!;
    return client.respond(id, actionId, { approved: true }, { timeoutMs: 60_000 });
  });
  await ends;
});

it(`a slow reader of a log of ${100 * SCALE} MB costs no memory, and gets all of it`, async () => {
  gateway = await GatewayProcess.start({ address: server.address, stallMs: 5_000 });
  const { id: conversationId } = await client.createConversation();
  // Gulps of 0.5 MB with a rest after each, in which a run is handed on.
  const gulp = [{ flood: { events: 100, bytes: 5_000 } }, { wait: 100 }];
  const config = { steps: Array.from({ length: Math.ceil(210 * SCALE) }, () => gulp).flat() };
  const { execution } = await client.startExecution({ conversationId, providerId: 'scripted', input: 'go', config });
  const before = gateway.memory;
  let most = before;
  let cursor = 0;
  let bytes = 0;
  let ended = false;
  /** Takes what has come, so that it is not we who keep it. */
  const drain = (stream: RawStream): void => {
    for (const { id, event, data } of stream.parser.frames.splice(0)) {
      expect(Number(id)).toBe(cursor + 1);
      cursor += 1;
      bytes += data.length;
      ended ||= event === 'run.completed';
    }
    most = Math.max(most, gateway.memory);
  };
  for (let turn = 0; !ended; turn++) {
    const headers = { 'Last-Event-ID': String(cursor) };
    const stream = await RawStream.open(gateway.url, `/v1/executions/${execution.id}/events`, { headers });
    // Slow for the first turns: a gulp, then a rest.
    for (let gulps = 0; !stream.complete; gulps++) {
      if (turn < 3 && gulps < 10) {
        stream.socket.pause();
        await new Promise((resolve) => setTimeout(resolve, 1_000));
        stream.socket.resume();
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
      drain(stream);
    }
    drain(stream);
    stream.socket.destroy();
  }
  console.log(
    `${(bytes / 1e6).toFixed(0)} MB in ${cursor} events; gateway ${before.toFixed(0)} → ${most.toFixed(0)} MiB`,
  );
  if (SCALE >= 1) expect(bytes).toBeGreaterThan(100_000_000);
  expect(most - before).toBeLessThan(200);
});
