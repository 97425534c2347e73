import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { claimDatabase } from '../../dev/database.js';
import { openServer } from '../../dev/open.js';
import { missingSearchAttributes, registerSearchAttributes } from '../../dev/search-attributes.js';
import { type DevServerOptions, startDevServer } from '../../dev/server.js';

const TIMEOUT = 120_000;
const MONTH_SECONDS = 30 * 24 * 60 * 60;

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-server-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function start(options: DevServerOptions = {}) {
  const server = await startDevServer(options);
  onTestFinished(() => server.stop());
  return server;
}

async function connect(address: string): Promise<Connection> {
  const connection = await Connection.connect({ address, channelArgs: { 'grpc.use_local_subchannel_pool': 1 } });
  onTestFinished(() => connection.close());
  return connection;
}

async function retentionSeconds(connection: Connection, namespace: string): Promise<number | undefined> {
  const { config } = await connection.workflowService.describeNamespace({ namespace });
  return config?.workflowExecutionRetentionTtl?.seconds?.toNumber();
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

describe('the dev server', () => {
  test('keeps a workflow, the retention and the search attributes over kill -9 on the same port', {
    timeout: TIMEOUT,
  }, async () => {
    const dbFile = join(folder, 'state', 'temporal.db');
    const first = await start({ dbFile, namespace: 'agents' });
    const connection = await connect(first.address);
    expect(await retentionSeconds(connection, 'agents')).toBe(MONTH_SECONDS);
    expect(await missingSearchAttributes(connection, 'agents')).toEqual([]);
    await registerSearchAttributes(connection, 'agents');
    await new Client({ connection, namespace: 'agents' }).workflow.start('anything', {
      taskQueue: 'nobody',
      workflowId: 'kept',
      searchAttributes: {
        HoldfastState: ['queued'],
        HoldfastProvider: ['p'],
        HoldfastConversation: ['c'],
        HoldfastTenant: ['t'],
      },
    });

    await first.kill();
    expect(lives(first.pid)).toBe(false);
    const second = await start({ dbFile, namespace: 'agents', port: Number(first.address.split(':')[1]) });
    expect(second.address).toBe(first.address);
    expect(second.pid).not.toBe(first.pid);
    const again = await connect(second.address);
    const kept = await new Client({ connection: again, namespace: 'agents' }).workflow.getHandle('kept').describe();
    expect(kept.status.name).toBe('RUNNING');
    expect(kept.searchAttributes.HoldfastState).toEqual(['queued']);
    expect(await retentionSeconds(again, 'agents')).toBe(MONTH_SECONDS);
    expect(await missingSearchAttributes(again, 'agents')).toEqual([]);
  });

  test('serves the UI, takes settings, and stops twice', { timeout: TIMEOUT }, async () => {
    const server = await start({
      ui: true,
      retentionDays: 3,
      dynamicConfig: { 'frontend.namespaceCount': 7, 'limit.maxIDLength': 500 },
      searchAttributes: { Team: 'Keyword' },
    });
    expect((await fetch(server.uiUrl!)).status).toBe(200);
    const connection = await connect(server.address);
    expect(await retentionSeconds(connection, 'default')).toBe(3 * 24 * 60 * 60);
    const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace: 'default' });
    expect(Object.keys(customAttributes ?? {})).toContain('Team');
    await server.stop();
    await server.stop();
    expect(lives(server.pid)).toBe(false);
  });

  test('refuses a port that is taken and a database that is in use', { timeout: TIMEOUT }, async () => {
    const dbFile = join(folder, 'temporal.db');
    const server = await start({ dbFile });
    const port = Number(server.address.split(':')[1]);
    await expect(startDevServer({ port })).rejects.toThrow(/did not start[\s\S]*address already in use/);
    await expect(claimDatabase(dbFile, 100)).rejects.toThrow(
      `in use by another Temporal dev server (process ${server.pid})`,
    );
    await server.stop();
    await claimDatabase(dbFile, 100);
  });

  test('tells the end of its output when it does not come up', { timeout: TIMEOUT }, async () => {
    await expect(startDevServer({ dynamicConfig: { 'no=key': 1, '=': 2 }, namespace: 'bad name/' })).rejects.toThrow(
      /did not start: it ended \(exit code 1\)\n[\s\S]+/,
    );
  });

  test.each(['forever', 'at once'])('ends with the process that started it: %s', { timeout: TIMEOUT }, async (mode) => {
    const fixture = fileURLToPath(new URL('fixtures/owner.ts', import.meta.url));
    const owner = spawn(process.execPath, ['--import', 'tsx', fixture, mode], { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(() => void owner.kill('SIGKILL'));
    const exited = once(owner, 'exit');
    const [line] = (await once(createInterface(owner.stdout), 'line')) as [string];
    const pid = Number(line.replace('pid ', ''));
    expect(lives(pid)).toBe(true);
    // A process with nothing left to do is not kept alive by its server; the other one gets no chance to clean up.
    if (mode === 'forever') owner.kill('SIGKILL');
    await exited;
    await vi.waitUntil(() => !lives(pid), { timeout: 20_000, interval: 50 });
  });
});

describe('opening a server', () => {
  test('takes the cluster that the environment names, and says so', async () => {
    const lines: string[] = [];
    const env = { TEMPORAL_ADDRESS: 'temporal.example:7233', TEMPORAL_NAMESPACE: 'prod' };
    const server = await openServer({ env, onProgress: (line) => lines.push(line) });
    expect(server).toMatchObject({ address: 'temporal.example:7233', namespace: 'prod', external: true });
    expect(lines).toEqual([server.description]);
    expect(server.description).toContain('temporal.example:7233, namespace prod');
    await server.stop();
  });

  test('starts one of its own otherwise', { timeout: TIMEOUT }, async () => {
    const { TEMPORAL_ADDRESS: _, ...env } = process.env;
    const server = await openServer({ env });
    onTestFinished(() => server.stop());
    expect(server).toMatchObject({ namespace: 'default', external: false });
    await connect(server.address);
  });
});
