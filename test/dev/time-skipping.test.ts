import { fileURLToPath } from 'node:url';
import { Client } from '@temporalio/client';
import { Worker } from '@temporalio/worker';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { registerSearchAttributes } from '../../dev/search-attributes.js';
import { startTimeSkippingServer, type TimeSkippingServer } from '../../dev/time-skipping.js';
import type { nap } from './fixtures/workflows.js';

const DAY = 24 * 60 * 60 * 1000;
const TIMEOUT = 60_000;

let server: TimeSkippingServer;
let client: Client;
let stopWorker: () => Promise<void>;

beforeAll(async () => {
  server = await startTimeSkippingServer();
  const { connection, nativeConnection } = server.env;
  client = new Client({ connection, namespace: server.namespace });
  const worker = await Worker.create({
    connection: nativeConnection,
    namespace: server.namespace,
    taskQueue: 'naps',
    workflowsPath: fileURLToPath(new URL('fixtures/workflows.ts', import.meta.url)),
  });
  const ran = worker.run();
  stopWorker = async () => {
    worker.shutdown();
    await ran;
  };
}, TIMEOUT);

afterAll(async () => {
  await stopWorker();
  await server.stop();
}, TIMEOUT);

function startNap(workflowId: string) {
  return client.workflow.start<typeof nap>('nap', {
    taskQueue: 'naps',
    workflowId,
    args: [20 * DAY],
    searchAttributes: {
      HoldfastState: ['queued'],
      HoldfastProvider: ['p'],
      HoldfastConversation: ['c'],
      HoldfastTenant: ['t'],
    },
  });
}

test(
  'the time-skipping server knows the search attributes, and a month of its time passes at once',
  async () => {
    await registerSearchAttributes(server.env.connection, server.namespace);
    const handle = await startNap('skipped');
    const before = await server.now();
    await server.skip(30 * DAY);
    expect((await server.now()) - before).toBeGreaterThanOrEqual(30 * DAY);
    expect(await handle.result()).toBe('rested');
  },
  TIMEOUT,
);

test(
  'its time passes as ours does, but for the work that it is unlocked for',
  async () => {
    const handle = await startNap('unlocked');
    const before = await server.now();
    expect((await server.now()) - before).toBeLessThan(DAY);
    expect((await handle.describe()).status.name).toBe('RUNNING');
    expect(await server.unlocked(() => handle.result())).toBe('rested');
    expect((await server.now()) - before).toBeGreaterThanOrEqual(20 * DAY);
    expect((await (await startNap('locked again')).describe()).status.name).toBe('RUNNING');
  },
  TIMEOUT,
);
