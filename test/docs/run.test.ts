/** What the documentation says to run is run: the README's client and worker, and the commands for operators. */
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
import { blocks, root, word } from './markdown.js';
import { withProject } from './snippets.js';

let server: DevServer;
let client: HoldfastClient;
let worker: ChildProcess;
let project: { readonly folder: string; leave(): void; readonly left: Promise<void> };
let env: NodeJS.ProcessEnv;
const programs = mkdtempSync(join(tmpdir(), 'holdfast-docs-'));
const NODE = [process.execPath, '--import', 'tsx'] as const;

beforeAll(async () => {
  const [{ path: temporal }, started] = await Promise.all([resolveTemporalCli(), startDevServer()]);
  server = started;
  // `npx holdfast` is this checkout's own command.
  const command = [...NODE, join(root, 'cli', 'main.ts')].map((each) => `'${each}'`).join(' ');
  writeFileSync(join(programs, 'npx'), `#!/bin/sh\ntest "$1" = holdfast || exit 64\nshift\nexec ${command} "$@"\n`);
  chmodSync(join(programs, 'npx'), 0o755);
  const path = [programs, dirname(temporal), process.env.PATH].join(delimiter);
  env = { ...process.env, PATH: path, TEMPORAL_ADDRESS: server.address };
  client = await HoldfastClient.connect({ address: server.address });
  project = await open();
  worker = spawn(NODE[0], [...NODE.slice(1), join(project.folder, 'worker.ts')], {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await saidReady(worker);
}, 120_000);

afterAll(async () => {
  worker?.kill('SIGKILL');
  project?.leave();
  await project?.left;
  await client?.close();
  await server?.stop();
  rmSync(programs, { recursive: true });
});

/** The README's program files, for as long as they are needed. */
async function open(): Promise<typeof project> {
  const files = blocks().filter((block) => block.page === 'README.md' && word(block, 'file')?.endsWith('.ts'));
  return await new Promise((resolve, reject) => {
    const left: Promise<void> = withProject(
      files,
      (folder) => new Promise<void>((leave) => resolve({ folder, leave, left: Promise.resolve().then(() => left) })),
    );
    left.catch(reject);
  });
}

async function saidReady(child: ChildProcess): Promise<void> {
  if (child.stdout === null) throw new Error('nobody listens');
  for await (const line of createInterface({ input: child.stdout })) if (line === 'ready') return;
  throw new Error('the worker did not come up');
}

/** Runs the commands that the page for operators shows under a name, as a shell does. */
async function operate(name: string, execution?: { id: string; actionId?: string }): Promise<string> {
  const [block, ...others] = blocks().filter((each) => each.language === 'sh' && word(each, 'run') === name);
  if (block === undefined || others.length > 0) throw new Error(`there is no one block run=${name}`);
  const variables =
    execution === undefined
      ? {}
      : { WORKFLOW: workflowIdOf('default', execution.id), ACTION: execution.actionId ?? '' };
  const shell = promisify(execFile)('sh', ['-euc', block.code], { cwd: root, env: { ...env, ...variables } });
  return (await shell).stdout;
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

it('runs every block that says so', () => {
  const named = blocks().flatMap((block) => (block.language === 'sh' ? (word(block, 'run') ?? []) : []));
  const run = ['list', 'look', 'answer', 'cancel', 'cancel-with-reason', 'terminate', 'setup', 'attributes'];
  expect(named.sort()).toEqual(run.sort());
});

it('the README’s worker drains on SIGTERM', async () => {
  const ended = new Promise((resolve) => worker.once('exit', (code, signal) => resolve({ code, signal })));
  worker.kill('SIGTERM');
  expect(await ended).toEqual({ code: 0, signal: null });
});
