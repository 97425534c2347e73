/** How a gateway ends: streams with a hint and no invented event, waiting requests with an answer, all of it in time. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { RunningGateway } from '../../gateway/index.js';
import { serveGateway } from '../../gateway/index.js';
import { Cluster } from '../support/cluster.js';
import { RawStream } from './raw.js';

let cluster: Cluster;
let running: string;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker();
  running = (await cluster.run([{ say: 'x' }, { hang: true }])).id;
  await cluster.seen(running, (event) => event.type === 'output.text.delta');
});

afterAll(async () => {
  await cluster.client.cancel(running);
  await cluster.stop();
});

const serve = (): Promise<RunningGateway> => serveGateway({ client: cluster.client, port: 0, handleSignals: false });

async function openStream(url: string): Promise<RawStream> {
  const stream = await RawStream.open(url, `/v1/executions/${running}/events`);
  await stream.until(() => stream.parser.frames.length >= 3);
  return stream;
}

/** A request that will not come to its end by itself. */
async function stuck(url: string): Promise<Socket> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1');
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  socket.write(
    'POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{',
  );
  await new Promise((resolve) => setTimeout(resolve, 100));
  return socket;
}

function expectCleanEnd(stream: RawStream): void {
  expect(stream.complete).toBe(true);
  expect(stream.parser.retries).toHaveLength(2);
  expect(stream.parser.retries[1]).toBeGreaterThanOrEqual(1_000);
  expect(stream.events.map(({ type }) => type)).toEqual(['run.queued', 'run.started', 'output.text.delta']);
}

describe('close', () => {
  it('ends streams cleanly, answers who waits, and is not held up by idle connections', async () => {
    const gateway = await serve();
    const agent = new Agent({ keepAlive: true });
    const idle = await new Promise((resolve) => {
      request(`${gateway.url}/healthz`, { agent }, (response) => {
        response.resume();
        response.on('end', () => resolve(response.headers['keep-alive']));
      }).end();
    });
    expect(idle).toBe('timeout=75');
    const stream = await openStream(gateway.url);
    const waiting = fetch(`${gateway.url}/v1/executions/${running}?waitSeconds=60`);
    await new Promise((resolve) => setTimeout(resolve, 300));
    const began = performance.now();
    const closed = gateway.close(10_000);
    expect(await (await waiting).json()).toMatchObject({ id: running, state: 'running' });
    await stream.finish(2_000);
    expectCleanEnd(stream);
    await closed;
    expect(performance.now() - began).toBeLessThan(3_000);
    await expect(fetch(`${gateway.url}/healthz`)).rejects.toThrow();
    agent.destroy();
    expect(gateway.streams).toBe(0);
  });

  it('cuts off after the grace what does not come to an end, and at once when it is called again', async () => {
    for (const [again, least, most] of [
      [false, 700, 3_000],
      [true, 0, 600],
    ] as const) {
      const gateway = await serve();
      const socket = await stuck(gateway.url);
      const began = performance.now();
      const closed = gateway.close(again ? 60_000 : 800);
      if (again) void gateway.close();
      await closed;
      const took = performance.now() - began;
      expect(took).toBeGreaterThanOrEqual(least);
      expect(took).toBeLessThan(most);
      socket.destroy();
    }
  });
});

describe('SIGTERM', () => {
  let child: ChildProcess;
  let lines: Interface;

  afterEach(() => void child.kill('SIGKILL'));

  async function start(): Promise<string> {
    const script = fileURLToPath(new URL('./gateway-process.ts', import.meta.url));
    const options = JSON.stringify({ address: cluster.server.address, graceMs: 30_000 });
    child = spawn(process.execPath, ['--import', 'tsx', script, options], { stdio: ['ignore', 'pipe', 'inherit'] });
    lines = createInterface({ input: child.stdout! });
    const [line] = (await once(lines, 'line')) as [string];
    return (JSON.parse(line) as { url: string }).url;
  }

  it('ends streams within the grace; the process then ends by itself', async () => {
    const stream = await openStream(await start());
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await stream.finish(5_000);
    expectCleanEnd(stream);
    expect(await exited).toEqual([0, null]);
  });

  it('does it at once when it comes a second time', async () => {
    const url = await start();
    const socket = await stuck(url);
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    await new Promise((resolve) => setTimeout(resolve, 500));
    expect(child.exitCode).toBeNull();
    child.kill('SIGTERM');
    const early = await Promise.race([exited, new Promise((resolve) => setTimeout(() => resolve('late'), 5_000))]);
    expect(early).toEqual([0, null]);
    socket.destroy();
  });
});
