/** `holdfast setup` and `holdfast worker` against a real server, and what they say when it is not ready for them. */
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { HoldfastClient } from '../../client/client.js';
import { type DevServer, startDevServer } from '../../dev/server.js';
import { removeScratches, run, start } from './command.js';

let server: DevServer;
let env: NodeJS.ProcessEnv;
const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
const config = join(folder, 'holdfast.config.json');

beforeAll(async () => {
  server = await startDevServer();
  env = { TEMPORAL_ADDRESS: server.address };
  writeFileSync(config, JSON.stringify({ providers: { scripted: {} }, drainMs: 0 }));
  const connection = await Connection.connect({ address: server.address });
  await connection.workflowService.registerNamespace({
    namespace: 'bare',
    workflowExecutionRetentionPeriod: msToTs('3 days'),
  });
  // Each part of the server learns of a namespace in its own time.
  await vi.waitFor(() => connection.operatorService.listSearchAttributes({ namespace: 'bare' }), { timeout: 20_000 });
  await connection.close();
});

afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
  removeScratches();
});

test('what needs the search attributes names the command that registers them; setup does, and again changes nothing', async () => {
  const bare = { env: { ...env, TEMPORAL_NAMESPACE: 'bare' } };
  for (const args of [
    ['worker', '--config', config],
    ['demo', '--crash'],
  ]) {
    const refused = await run(args, bare);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(/^holdfast: RUNTIME_UNAVAILABLE: .*HoldfastState.*run: npx holdfast setup\n$/);
  }

  const first = await run(['setup'], bare);
  expect([first.code, first.stderr]).toEqual([0, '']);
  expect(first.stdout).toMatch(
    /^namespace bare at .*: registered .*HoldfastState, HoldfastProvider, HoldfastConversation, HoldfastTenant\n/,
  );
  expect(first.stdout).toContain('note: namespace bare keeps closed runs for 3 days');
  const second = await run(['setup', '--namespace', 'bare'], { env });
  expect([second.code, second.stderr]).toEqual([0, '']);
  expect(second.stdout).toMatch(/^namespace bare at .*: has .* already; nothing to do\n/);
}, 120_000);

test('setup of a namespace that is not there, and of no server, says which', async () => {
  const [nowhere, nobody] = await Promise.all([
    run(['setup', '--namespace', 'nowhere'], { env }),
    run(['setup', '--address', '127.0.0.1:1']),
  ]);
  expect([nowhere.code, nobody.code]).toEqual([1, 1]);
  expect(nowhere.stderr).toMatch(/^holdfast: RUNTIME_UNAVAILABLE: .*nowhere.*\n$/);
  expect(nobody.stderr).toMatch(/^holdfast: RUNTIME_UNAVAILABLE: no Temporal server answers at 127\.0\.0\.1:1.*\n$/);
  expect(nobody.stderr).toContain('--address or TEMPORAL_ADDRESS');
}, 120_000);

test('worker runs what its file names, says when it is ready, and drains on SIGTERM', async () => {
  const ready = join(folder, 'ready');
  const worker = start(['worker', '--config', config, '--ready-file', ready], { env });
  await worker.says(/^worker ready: scripted on .*, namespace default \(process \d+\)\n/);
  expect(existsSync(ready)).toBe(true);
  const client = await HoldfastClient.connect({ address: server.address });
  const { id } = await client.createConversation();
  const { execution } = await client.startExecution({ conversationId: id, providerId: 'scripted', input: 'hi' });
  expect((await client.waitForTerminal(execution.id)).finalOutput).toBe('hi');
  await client.close();

  worker.kill('SIGTERM');
  const { code, stdout, stderr } = await worker.ended;
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(/worker stopped\n$/);
  expect(existsSync(ready)).toBe(false);
}, 60_000);
