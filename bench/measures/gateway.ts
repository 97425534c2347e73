/**
 * What HTTP adds: the gateway beside the client that it stands on. Gateway and worker have processes of their own, so
 * that whoever calls does nothing but call, as a backend service.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { HoldfastEvent } from '../../protocol/event.js';
import { GatewayProcess, WorkerProcess } from '../holdfast/processes.js';
import { emittedAt } from '../holdfast/provider.js';
import type { Bench } from '../support/bench.js';
import { type Measure, ms, perSecond, type Row } from '../support/measure.js';
import { PROVIDER } from '../support/names.js';
import { inLanes, interleave, median, now, percentile, timed } from '../support/stats.js';

const PER_SECOND = 40;
const MAX_RATIO = 1.3;
/** Where a call takes so little that a ratio says nothing, this much more is fine too, in milliseconds. */
const CALL_MS = 3;
const DELIVERY_MS = 5;
const LANES = 16;
/** A gateway serves for weeks: what its first hundred requests cost in a fresh process says nothing of it. */
const WARM_CALLS = 300;
const WARM_ROUNDS = 10;
const STREAMS = 500;
const QUICK_STREAMS = 100;

export const gateway: Measure = {
  name: 'gateway',
  about: 'start, get, respond and event delivery over HTTP; requests a second; memory a stream',
  async run(bench) {
    await bench.stopWorker();
    const worker = await WorkerProcess.start(bench.server.address);
    const process = await GatewayProcess.start(bench.server.address);
    try {
      const http = new Http(process.url);
      const { rounds, calls, streamed } = bench.scale;
      const turns = rounds * calls;
      const variants = {
        startHttp: () => started(bench, http),
        start: () => started(bench),
        getHttp: () => gotten(bench, http),
        get: () => gotten(bench),
        respondHttp: () => answered(bench, http),
        respond: () => answered(bench),
      };
      await warmUp(bench, http);
      await interleave(WARM_ROUNDS, variants);
      const found = await interleave(turns, variants);
      const p50 = (samples: readonly number[]): number => percentile(samples, 0.5);
      const events = { streamHttp: () => delivered(bench, streamed, http), stream: () => delivered(bench, streamed) };
      const delivery = await interleave(rounds, events);
      const rate = await interleave(rounds, {
        http: () => rateOf(bench, calls * 20, http),
        own: () => rateOf(bench, calls * 20),
      });
      return {
        rows: [
          overhead('start over HTTP, p50', p50(found.startHttp), p50(found.start), CALL_MS),
          overhead('get over HTTP, p50', p50(found.getHttp), p50(found.get), CALL_MS),
          overhead('respond over HTTP, p50', p50(found.respondHttp), p50(found.respond), CALL_MS),
          overhead(
            `emit → SSE reader, ${PER_SECOND} events/s, p50`,
            median(delivery.streamHttp.map(p50)),
            median(delivery.stream.map(p50)),
            DELIVERY_MS,
          ),
          {
            measure: `GET of an execution, ${LANES} at once`,
            holdfast: perSecond(median(rate.http)),
            beside: `${perSecond(median(rate.own))} by the client`,
            ratio: median(rate.http) / median(rate.own),
            goal: 'reported',
          },
          await memoryRow(bench, process, http),
        ],
      };
    } finally {
      await process.stop();
      await worker.stop();
      await bench.startWorker();
    }
  },
};

/** Reads by turns, so that neither side is measured with code that the engine has not compiled yet. */
async function warmUp(bench: Bench, http: Http): Promise<void> {
  const id = await bench.submit(TEXTS);
  await bench.client.waitForTerminal(id);
  await interleave(WARM_CALLS, {
    http: () => http.call(`executions/${id}`),
    own: () => bench.client.getExecution(id),
  });
}

function overhead(measure: string, http: number, own: number, more: number): Row {
  return {
    measure,
    holdfast: `${ms(http)} (${http < own ? '−' : '+'} ${ms(Math.abs(http - own))})`,
    beside: `${ms(own)} by the client`,
    ratio: http / own,
    goal: `≤ ${MAX_RATIO} × or + ${more} ms`,
    met: http / own <= MAX_RATIO || http - own <= more,
  };
}

class Http {
  constructor(private readonly url: string) {}

  async call<T>(path: string, body?: unknown): Promise<T> {
    const response = await fetch(`${this.url}/v1/${path}`, {
      ...(body === undefined
        ? {}
        : { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    });
    const answer = (await response.json()) as T;
    if (!response.ok) throw new Error(`${path}: ${response.status} ${JSON.stringify(answer)}`);
    return answer;
  }

  /** Server-sent events as they come; left at once when `signal` aborts. */
  async *events(id: string, signal?: AbortSignal): AsyncGenerator<HoldfastEvent> {
    const response = await fetch(`${this.url}/v1/executions/${id}/events`, {
      headers: { accept: 'text/event-stream' },
      ...(signal === undefined ? {} : { signal }),
    });
    if (response.body === null) return;
    let rest = '';
    for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
      const frames = (rest + text).split('\n\n');
      rest = frames.pop() ?? '';
      for (const frame of frames) {
        const data = /^data: (.*)$/m.exec(frame)?.[1];
        if (data !== undefined) yield JSON.parse(data) as HoldfastEvent;
      }
    }
  }
}

const TEXTS = { kind: 'texts', events: 1 } as const;

async function started(bench: Bench, http?: Http): Promise<number> {
  const request = {
    conversationId: bench.conversations[0] ?? '',
    providerId: PROVIDER,
    input: 'go',
    config: { task: TEXTS },
  };
  let id = '';
  const took = await timed(async () => {
    id =
      http === undefined
        ? (await bench.client.startExecution(request)).execution.id
        : (await http.call<{ id: string }>('executions', request)).id;
  });
  await bench.client.waitForTerminal(id);
  return took;
}

async function gotten(bench: Bench, http?: Http): Promise<number> {
  const id = await bench.submit(TEXTS);
  await bench.client.waitForTerminal(id);
  await bench.handle(id).result();
  return await timed(() => (http === undefined ? bench.client.getExecution(id) : http.call(`executions/${id}`)));
}

async function answered(bench: Bench, http?: Http): Promise<number> {
  const id = await bench.submit({ kind: 'approve', suspend: false });
  const actionId = await bench.openAction(id);
  const took = await timed(() =>
    http === undefined
      ? bench.client.respond(id, actionId, { approved: true })
      : http.call(`executions/${id}/actions/${actionId}:respond`, { approved: true }),
  );
  await bench.client.waitForTerminal(id);
  return took;
}

async function delivered(bench: Bench, events: number, http?: Http): Promise<number[]> {
  const id = await bench.submit({ kind: 'paced', events, perSecond: PER_SECOND });
  const delays: number[] = [];
  for await (const event of http === undefined ? bench.client.events(id) : http.events(id))
    if (event.type === 'output.text.delta') delays.push(now() - emittedAt(event.data.text).at);
  return delays;
}

async function rateOf(bench: Bench, count: number, http?: Http): Promise<number> {
  const id = await bench.submit(TEXTS);
  await bench.client.waitForTerminal(id);
  const from = now();
  await inLanes(count, LANES, async () => {
    await (http === undefined ? bench.client.getExecution(id) : http.call(`executions/${id}`));
  });
  return (count * 1_000) / (now() - from);
}

/** Streams that wait for the next event of an execution which has none. */
async function memoryRow(bench: Bench, process: GatewayProcess, http: Http): Promise<Row> {
  const count = bench.scale.quick ? QUICK_STREAMS : STREAMS;
  const id = await bench.submit({ kind: 'hang' });
  const leaving = new AbortController();
  const before = await process.bytes();
  const reading = Array.from({ length: count }, async () => {
    const events = http.events(id, leaving.signal);
    // A loop that is left would close the stream.
    for (;;) {
      const { done, value } = await events.next();
      if (done) throw new Error('it did not start');
      if (value.type === 'run.started') return events;
    }
  });
  await Promise.all(reading);
  await delay(1_000);
  const each = ((await process.bytes()) - before) / count / 1024;
  leaving.abort();
  await bench.client.cancel(id);
  return {
    measure: `memory of the gateway for each of ${count} open streams of one execution`,
    holdfast: `${each.toFixed(0)} KiB`,
    beside: '–',
    goal: 'reported',
  };
}
