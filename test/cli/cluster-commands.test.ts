/** `setup`, `worker`, `serve` and `doctor` against a real server, and what they say when something is missing. */
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { HoldfastClient } from '../../client/client.js';
import { type DevServer, startDevServer } from '../../dev/server.js';
import { Built, records } from './built.js';
import { type CommandOptions, type Ended, type Running, removeScratches } from './command.js';

let holdfast: Built;
let server: DevServer;
let env: NodeJS.ProcessEnv;
const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
const config = join(folder, 'holdfast.config.json');
const database = join(folder, 'state.db');

beforeAll(async () => {
  holdfast = new Built();
  server = await startDevServer({ dbFile: database });
  env = { TEMPORAL_ADDRESS: server.address };
  writeFileSync(config, JSON.stringify({ providers: { scripted: {} }, drainMs: 0 }));
  const connection = await Connection.connect({ address: server.address });
  const workflowExecutionRetentionPeriod = msToTs('3 days');
  for (const namespace of ['bare', 'empty']) {
    await connection.workflowService.registerNamespace({ namespace, workflowExecutionRetentionPeriod });
    // Each part of the server learns of a namespace in its own time.
    await vi.waitFor(() => connection.operatorService.listSearchAttributes({ namespace }), { timeout: 20_000 });
  }
  await connection.close();
});

afterAll(async () => {
  await server.stop();
  rmSync(folder, { recursive: true });
  holdfast.remove();
  removeScratches();
});

const start = (args: readonly string[], options?: CommandOptions): Running => holdfast.start(args, options);
const run = (args: readonly string[], options?: CommandOptions): Promise<Ended> => holdfast.run(args, options);

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

test('worker runs what its file names; all is well then, also for callers over HTTP; it drains on SIGTERM', async () => {
  const ready = join(folder, 'ready');
  const worker = start(['worker', '--config', config, '--ready-file', ready], { env });
  await worker.says(/^worker ready: scripted on .*, namespace default \(process \d+\)\n/);
  expect(existsSync(ready)).toBe(true);
  const client = await HoldfastClient.connect({ address: server.address });
  const { id } = await client.createConversation();
  const { execution } = await client.startExecution({ conversationId: id, providerId: 'scripted', input: 'hi' });
  expect((await client.waitForTerminal(execution.id)).finalOutput).toBe('hi');
  await client.close();

  await expectWell();
  await expectServed();

  worker.kill('SIGTERM');
  const { code, stdout, stderr } = await worker.ended;
  expect([code, stderr]).toEqual([0, '']);
  expect(stdout).toMatch(/worker stopped\n$/);
  expect(existsSync(ready)).toBe(false);
}, 180_000);

/** With everything there, doctor has nothing to say but what there is. */
async function expectWell(): Promise<void> {
  const ui = createServer((_, response) => response.end()).listen(0, '127.0.0.1');
  await once(ui, 'listening');
  const uiUrl = `http://127.0.0.1:${(ui.address() as AddressInfo).port}`;
  const agent = join(folder, 'opencode');
  writeFileSync(agent, '#!/bin/sh\n');
  chmodSync(agent, 0o755);
  const file = join(folder, 'ui.json');
  writeFileSync(file, JSON.stringify({ uiUrl }));
  const path = `${folder}:${process.env.PATH}`;
  const terminal = holdfast.atTerminal(['doctor', '--config', file], { env: { ...env, PATH: path } });
  const { code } = await terminal.ended;
  ui.close();
  expect([code, terminal.screen]).toEqual([
    0,
    expect.stringMatching(
      /^✓ node .*\n✓ configuration .*\n✓ server .*\n✓ Temporal UI .*\n✓ search attributes .*\n✓ workers .*\n✓ provider scripted .*\n✓ agents on PATH +opencode .*\n$/,
    ),
  ]);
}

const KEY = 'a-token-of-tenant-a';

/** Two tenants over HTTP, each with its token, by a gateway that ends in order. */
async function expectServed(): Promise<void> {
  const tokens = `${KEY} b:another-token-of-tenant-b`;
  const gateway = start(['serve', '--port', '0', '--access-log', '--json'], {
    env: { ...env, HOLDFAST_API_TOKENS: tokens },
  });
  await gateway.says('"ready"');
  const [ready] = records<{ url: string }>(gateway.stdout);
  const call = async (token: string, path: string, body?: object): Promise<{ status: number; id: string }> => {
    const response = await fetch(`${ready?.url}/v1/${path}`, {
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }),
    });
    return { ...((await response.json()) as { id: string }), status: response.status };
  };
  const { id: conversationId } = await call(KEY, 'conversations', {});
  const { id } = await call(KEY, 'executions', { conversationId, providerId: 'scripted', input: 'over HTTP' });
  expect(await call(KEY, `executions/${id}?waitSeconds=20`)).toMatchObject({ finalOutput: 'over HTTP' });
  expect((await call('another-token-of-tenant-b', `executions/${id}`)).status).toBe(404);
  expect((await call('no-token-that-is-known', `executions/${id}`)).status).toBe(401);
  gateway.kill('SIGTERM');
  const { code, stderr } = await gateway.ended;
  expect(code).toBe(0);
  expect(records(stderr).length).toBeGreaterThanOrEqual(5);
  expect(stderr).not.toContain(KEY);
}

test('serve beyond this machine takes tokens; a port that is taken is named', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const [open, busy] = await Promise.all([
    run(['serve', '--host', '0.0.0.0', '--port', '0'], { env }),
    run(['serve'], { env: { ...env, HOLDFAST_PORT: String(port) } }),
  ]);
  taken.close();
  expect([open.code, busy.code]).toEqual([2, 2]);
  expect(open.stderr).toMatch(/^holdfast: VALIDATION_ERROR: 0\.0\.0\.0 .*set HOLDFAST_API_TOKENS/);
  expect(busy.stderr).toMatch(new RegExp(`127\\.0\\.0\\.1:${port} is in use already; choose another port`));
}, 120_000);

test('the environment and the profiles of Temporal’s own TOML file say which cluster; a flag wins', async () => {
  const toml = join(folder, 'temporal.toml');
  writeFileSync(toml, `[profile.here]\naddress = "${server.address}"\n[profile.else]\naddress = "127.0.0.1:1"\n`);
  const profile = (...args: string[]) => run(['providers', '--json', ...args], { env: { TEMPORAL_CONFIG_FILE: toml } });
  const [here, other, none, flag] = await Promise.all([
    profile('--profile', 'here'),
    profile('--profile', 'else'),
    profile('--profile', 'nowhere'),
    profile('--profile', 'else', '--address', server.address),
  ]);
  expect([here.code, other.code, none.code, flag.code]).toEqual([0, 1, 2, 0]);
  expect(other.stderr).toContain('no Temporal server answers at 127.0.0.1:1');
  expect(none.stderr).toContain("Profile 'nowhere' not found");
}, 120_000);

test('doctor, at a terminal, says of each thing that is missing what to do about it', async () => {
  const broken = join(folder, 'broken.json');
  writeFileSync(broken, JSON.stringify({ provider: {} }));
  const elsewhere = join(folder, 'elsewhere.json');
  writeFileSync(elsewhere, JSON.stringify({ address: '127.0.0.1:1', uiUrl: 'http://127.0.0.1:1' }));
  const nothing = mkdtempSync(join(folder, 'path-'));
  const examined = async (...args: string[]): Promise<[code: unknown, screen: string]> => {
    const terminal = holdfast.atTerminal(['doctor', ...args], { env: { PATH: nothing } });
    return [(await terminal.ended).code, terminal.screen];
  };
  // A server that was started anew knows what was announced, and has not seen who polls.
  const { address } = server;
  await server.stop();
  const port = Number(address.split(':').at(-1));
  server = await startDevServer({ port, dbFile: database });
  const there = ['--address', server.address];
  const [file, away, empty, announced] = await Promise.all([
    examined('--config', broken),
    examined('--config', elsewhere),
    examined(...there, '--namespace', 'empty'),
    examined(...there),
  ]);
  for (const [code, screen] of [file, away, empty, announced]) {
    expect([code, screen]).toEqual([1, expect.stringContaining('✓ node')]);
    expect(screen).toMatch(/! agents on PATH +none of opencode, .*\n {4}→ .*npm install -g opencode-ai/);
  }
  expect(file[1]).toMatch(/✗ configuration .*provider: there is no such key\n {4}→ mend the file/);
  expect(away[1]).toMatch(
    /✗ server .*\n {4}→ start one \(holdfast dev\).*TEMPORAL_ADDRESS\n! Temporal UI .*\n {4}→ .*"uiUrl"/,
  );
  expect(empty[1]).toMatch(/✓ server /);
  expect(empty[1]).toMatch(/✗ search attributes .*lacks .*HoldfastState.*\n {4}→ run: holdfast setup\n/);
  expect(empty[1]).toMatch(/✗ workers .*\n {4}→ start one: holdfast worker\n/);
  expect(empty[1]).toMatch(/✗ providers .*\n {4}→ start a worker: holdfast worker\n/);
  expect(announced[1]).toMatch(/✓ search attributes /);
  expect(announced[1]).toMatch(/✗ workers /);
  expect(announced[1]).toMatch(
    /! provider scripted .*no worker polls its queue\n {4}→ .*start a worker with scripted\n/,
  );
}, 120_000);
