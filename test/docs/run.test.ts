/** What the documentation says to run is run: the README's programs, the gateway, and the commands for operators. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { HoldfastClient } from '../../client/client.js';
import { resolveTemporalCli } from '../../dev/resolve.js';
import { type DevServer, startDevServer } from '../../dev/server.js';
import { workflowIdOf } from '../../protocol/ids.js';
import { Built } from '../cli/built.js';
import { blocks, root, word } from './markdown.js';
import { withProject } from './snippets.js';

const holdfast = new Built();
let server: DevServer;
let client: HoldfastClient;
let worker: ChildProcess;
let gateway: ChildProcess;
let gatewayUrl: string;
let project: { readonly folder: string; leave(): void; readonly left: Promise<void> };
let env: NodeJS.ProcessEnv;
const programs = mkdtempSync(join(tmpdir(), 'holdfast-docs-'));
const TOKEN = 'a-token-of-these-tests';
const NODE = [process.execPath, '--import', 'tsx'] as const;

beforeAll(async () => {
  const [{ path: temporal }, started] = await Promise.all([resolveTemporalCli(), startDevServer()]);
  server = started;
  // `npx holdfast` is this checkout's own command.
  const command = holdfast.command.map((each) => `'${each}'`).join(' ');
  writeFileSync(join(programs, 'npx'), `#!/bin/sh\ntest "$1" = holdfast || exit 64\nshift\nexec ${command} "$@"\n`);
  chmodSync(join(programs, 'npx'), 0o755);
  const path = [programs, dirname(temporal), process.env.PATH].join(delimiter);
  env = { ...process.env, PATH: path, TEMPORAL_ADDRESS: server.address };
  client = await HoldfastClient.connect({ address: server.address });
  project = await open();
  worker = program('worker.ts');
  gateway = program('gateway.ts', { PORT: '0', HOLDFAST_API_TOKENS: TOKEN });
  [, gatewayUrl = ''] = await Promise.all([said(worker, /^ready$/), said(gateway, /^listening on (http.*)$/)]);
}, 120_000);

afterAll(async () => {
  worker?.kill('SIGKILL');
  gateway?.kill('SIGKILL');
  project?.leave();
  await project?.left;
  await client?.close();
  await server?.stop();
  rmSync(programs, { recursive: true });
  holdfast.remove();
});

/** The program files of the README and of the gateway's page, for as long as they are needed. */
async function open(): Promise<typeof project> {
  const files = blocks().filter((block) => word(block, 'file')?.endsWith('.ts'));
  return await new Promise((resolve, reject) => {
    const left: Promise<void> = withProject(
      files,
      (folder) => new Promise<void>((leave) => resolve({ folder, leave, left: Promise.resolve().then(() => left) })),
    );
    left.catch(reject);
  });
}

/** Starts one of them, with what it may need besides. */
function program(file: string, more: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn(NODE[0], [...NODE.slice(1), join(project.folder, file)], {
    cwd: root,
    env: { ...env, ...more },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

/** Waits for a line of `child`, and gives what its pattern caught. */
async function said(child: ChildProcess, line: RegExp): Promise<string> {
  if (child.stdout === null) throw new Error('nobody listens');
  for await (const each of createInterface({ input: child.stdout })) {
    const match = line.exec(each);
    if (match !== null) return match[1] ?? each;
  }
  throw new Error(`it did not say ${line}`);
}

async function exited(child: ChildProcess): Promise<unknown> {
  const ended = new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));
  child.kill('SIGTERM');
  return await ended;
}

/** Runs the commands that a page shows under a name, as a shell does. */
async function shell(name: string, variables: NodeJS.ProcessEnv): Promise<string> {
  const [block, ...others] = blocks().filter((each) => each.language === 'sh' && word(each, 'run') === name);
  if (block === undefined || others.length > 0) throw new Error(`there is no one block run=${name}`);
  const ran = promisify(execFile)('sh', ['-euc', block.code], { cwd: root, env: { ...env, ...variables } });
  return (await ran).stdout;
}

async function operate(name: string, execution?: { id: string; actionId?: string }): Promise<string> {
  if (execution === undefined) return await shell(name, {});
  return await shell(name, { WORKFLOW: workflowIdOf('default', execution.id), ACTION: execution.actionId ?? '' });
}

async function started(config: object): Promise<string> {
  const { id: conversationId } = await client.createConversation();
  const request = { conversationId, providerId: 'scripted', input: 'go', config: JSON.parse(JSON.stringify(config)) };
  return (await client.startExecution(request)).execution.id;
}

/** An execution that asks, and what it asks. */
async function asking(suspend = false): Promise<{ id: string; actionId: string }> {
  const id = await started({ steps: [{ say: 'so far. ' }, { approve: { title: 'Go on?' } }], suspend });
  for await (const event of client.events(id))
    if (event.type === 'action.required') return { id, actionId: event.data.id };
  throw new Error('it did not ask');
}

it('the README’s client runs against its worker', async () => {
  const file = join(project.folder, 'client.ts');
  const { stdout } = await promisify(execFile)(NODE[0], [...NODE.slice(1), file], { cwd: root, env });
  expect(stdout).toMatch(/^exec_\w+ is durable now\n1 run\.queued /);
  expect(stdout).toMatch(/\nsucceeded Checked\. approved\.\n$/);
});

it('the README’s provider says its input', async () => {
  const { id: conversationId } = await client.createConversation();
  const request = { conversationId, providerId: 'echo', input: 'hello there', config: { upper: true } };
  const { execution } = await client.startExecution(request);
  expect((await client.waitForTerminal(execution.id)).finalOutput).toBe('HELLO THERE');
});

it('the conformance kit finds nothing against the provider that its page names', async () => {
  const file = join(project.folder, 'conformance.ts');
  const { stdout } = await promisify(execFile)(NODE[0], [...NODE.slice(1), file], { cwd: root, env });
  expect(stdout).toMatch(/^Conformance of provider scripted\n✓ manifest\.valid +scripted /);
  expect(stdout).toMatch(/\n✓ invariant\.8-concurrent-cancels +1 cleanups\n/);
  expect(stdout).toMatch(/\n33 passed, 0 failed, 2 skipped\n$/);
}, 120_000);

it('an operator sets up a namespace', async () => {
  expect(await operate('setup')).toContain('namespace default');
  expect(await operate('attributes')).toContain('update succeeded');
});

it('an operator finds who waits, looks, and answers', async () => {
  const { id, actionId } = await asking();
  await expect.poll(() => operate('list'), { timeout: 15_000 }).toContain(`default.${id}`);
  const shown = await operate('look', { id });
  for (const part of ['awaiting_approval', '> so far.', actionId, 'scripted: go', '"type":"run.started"'])
    expect(shown).toContain(part);
  await operate('answer', { id, actionId });
  expect((await client.waitForTerminal(id)).finalOutput).toBe('so far. approved');
});

it('an operator cancels, with and without a reason, and terminates', async () => {
  // A live one that is terminated keeps its worker for some heartbeats.
  const [plain, reasoned, terminated] = await Promise.all([asking(), asking(), asking(true)]);
  await Promise.all([
    operate('cancel', plain),
    operate('cancel-with-reason', reasoned),
    operate('terminate', terminated),
  ]);
  expect((await client.waitForTerminal(plain.id)).state).toBe('cancelled');
  expect((await client.waitForTerminal(reasoned.id)).state).toBe('cancelled');
  const { events } = await client.listEvents(reasoned.id);
  expect(events.at(-1)?.data).toMatchObject({ reason: 'no longer needed' });
  expect((await client.waitForTerminal(terminated.id)).error?.code).toBe('TERMINATED');
});

it('an operator sees what is open in a conversation, and closes it', async () => {
  const { id } = await asking(true);
  const { conversationId } = await client.getExecution(id);
  const variables = { CONVERSATION: conversationId };
  await expect.poll(() => shell('turns', variables), { timeout: 15_000 }).toContain(`default.${id}`);
  await shell('close', variables);
  const request = { conversationId, providerId: 'scripted', input: 'go', config: { steps: [] } };
  const refusal = () => client.startExecution(request).catch((error) => error.code);
  await expect.poll(refusal, { timeout: 15_000 }).toBe('INVALID_STATE');
  await client.cancel(id);
});

it('the command runs, lists and looks, as its page says; a configuration in TypeScript makes a worker', async () => {
  const shown = await shell('cli', {});
  expect(shown).toMatch(/text +│ hello\n[\s\S]*succeeded after [\s\S]*EXECUTION +STATE[\s\S]*✓ workers/);
  const config = join(project.folder, 'holdfast.config.ts');
  const [node, main] = holdfast.command;
  const configured = spawn(node, [main, 'worker', '--config', config], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  expect(await said(configured, /^worker ready: (.*) on /)).toBe('scripted, echo');
  expect(await exited(configured)).toEqual({ code: 0, signal: null });
}, 180_000);

it('the gateway starts an execution and streams it, as its page says', async () => {
  const variables = { GATEWAY: gatewayUrl, TOKEN };
  const EXECUTION = (await shell('http-start', variables)).trim();
  expect(EXECUTION).toMatch(/^exec_\w+$/);
  const stream = await shell('http-stream', { ...variables, EXECUTION });
  expect(stream).toMatch(/^retry: 2000\n\n: holdfast +\n\nid: 1\nevent: run\.queued\ndata: \{/);
  expect(stream).toMatch(/\nevent: run\.completed\ndata: \{.*"finalOutput":"hello there".*\}\n\n$/);
});

it('runs every block that says so', () => {
  const named = blocks().flatMap((block) => (block.language === 'sh' ? (word(block, 'run') ?? []) : []));
  const operators = ['list', 'look', 'answer', 'cancel', 'cancel-with-reason', 'terminate', 'setup', 'attributes'];
  const run = [...operators, 'turns', 'close', 'http-start', 'http-stream', 'cli'];
  expect(named.sort()).toEqual(run.sort());
});

it('the gateway and the README’s worker end in order on SIGTERM', async () => {
  expect(await exited(gateway)).toEqual({ code: 0, signal: null });
  expect(await exited(worker)).toEqual({ code: 0, signal: null });
});
