/** The real OpenCode through the `acp` provider, with a local model: nothing is mocked and nothing is left behind. */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openCodeAgent, resolveOpenCode } from '../../dev/opencode.js';
import { type LocalModel, startLocalModel } from '../../examples/local-model/server.js';
import { type AcpOptions, acpProvider } from '../../providers/acp/acp.js';
import { isAlive, processesWith } from '../support/processes.js';
import { eventually, testContext } from '../support/provider-context.js';
import { scratchFolder } from '../support/scratch.js';

let model: LocalModel;
let command: string;
const folders: string[] = [];

beforeAll(async () => {
  ({ command } = await resolveOpenCode({ onProgress: (line) => process.stderr.write(`${line}\n`) }));
  model = await startLocalModel();
}, 600_000);

afterAll(async () => {
  await model?.stop();
  for (const folder of folders) await rm(folder, { recursive: true, force: true });
});

function setUp(options: Partial<AcpOptions> = {}) {
  const home = scratchFolder('holdfast-opencode-');
  const workspace = scratchFolder('holdfast-workspace-');
  folders.push(home, workspace);
  const agent = openCodeAgent({ command, home, workspace, model: { baseUrl: model.url, apiKey: model.apiKey } });
  const provider = acpProvider({ agents: { opencode: agent }, ...options });
  // Everything that it starts inherits its HOME.
  return { agent, provider, workspace, left: () => processesWith(home) };
}

/** The pid of a `sleep` that a tool of the agent runs. */
const sleeper = (left: () => number[]) => left().find((pid) => processesWith('sleep\u0000600').includes(pid));

test('text, thoughts and usage', async () => {
  const { provider, left } = setUp();
  const ctx = testContext(provider, { input: '[think:let me see]' });
  const result = await provider.run(ctx);
  expect(ctx.text).toBe('I have thought about it.');
  const thoughts = ctx.native('acp.agent_thought_chunk') as { update?: { content: { text: string } } }[];
  expect(thoughts.map((event) => event.update?.content.text).join('')).toBe('let me see');
  expect(result.usage).toMatchObject({ inputTokens: expect.any(Number), outputTokens: expect.any(Number) });
  expect(ctx.sessions[0]).toMatchObject({ agents: { opencode: { id: expect.stringMatching(/^ses_/) } } });
  expect(left()).toEqual([]);
});

test('a permission that is approved lets the command run, one that is rejected does not', async () => {
  for (const approved of [true, false]) {
    const { provider, workspace, left } = setUp();
    const ctx = testContext(provider, { input: '[bash:echo done > proof.txt]', answer: () => ({ approved }) });
    const result = await provider.run(ctx);
    expect(ctx.actions).toMatchObject([{ kind: 'approval', title: expect.stringContaining('proof.txt') }]);
    expect(result.usage).toBeDefined();
    const proof = join(workspace, 'proof.txt');
    expect(existsSync(proof)).toBe(approved);
    if (approved) expect(readFileSync(proof, 'utf8')).toBe('done\n');
    const updates = ctx.native('acp.tool_call_update').map((event) => JSON.stringify(event.update));
    expect(updates.at(-1)).toContain(approved ? '"completed"' : '"failed"');
    expect(left()).toEqual([]);
  }
});

test('rules answer for a person: a command and a file are allowed, another command is denied', async () => {
  const { provider, workspace } = setUp({
    policy: [
      { name: 'echo', command: 'echo', answer: 'allow' },
      { name: 'notes', path: 'notes', answer: 'allow' },
      { name: 'no removals', command: 'rm', answer: 'deny' },
    ],
    artifacts: { files: true },
  });
  const rule = async (input: string) => {
    const ctx = testContext(provider, { input, answer: () => ({ approved: false }) });
    await provider.run(ctx);
    const [answered] = ctx.native('policy.answered');
    return { rule: answered?.rule, asked: ctx.actions.length, ctx };
  };
  expect(await rule('[bash:echo hello]')).toMatchObject({ rule: 'echo', asked: 0 });
  expect(await rule('[bash:rm notes]')).toMatchObject({ rule: 'no removals', asked: 0 });
  expect(await rule('[bash:echo hello > proof.txt]')).toMatchObject({ rule: undefined, asked: 1 });
  expect(existsSync(join(workspace, 'proof.txt'))).toBe(false);
  const note = JSON.stringify({ filePath: join(workspace, 'notes', 'a.md'), content: 'noted' });
  const { ctx, ...written } = await rule(`[tool:write:${note}]`);
  expect(written).toEqual({ rule: 'notes', asked: 0 });
  expect(readFileSync(join(workspace, 'notes', 'a.md'), 'utf8')).toBe('noted');
  expect(ctx.artifacts).toMatchObject([{ name: 'notes/a.md', mediaType: 'text/markdown', metadata: { bytes: 5 } }]);
}, 240_000);

test('a file of the workspace goes along, and an MCP server of the configuration is called', async () => {
  const words = fileURLToPath(new URL('../fixtures/mcp-words.mjs', import.meta.url));
  const { provider, workspace, left } = setUp({
    mcpServers: {
      words: { type: 'stdio', command: process.execPath, args: [words], env: { WORDS_VERSION: 'version seven' } },
    },
  });
  writeFileSync(join(workspace, 'plan.md'), 'the plan is marmalade');
  const prompt = [
    { type: 'text', text: '[tool:words_count:{"text":"one two three"}]' },
    { type: 'resource', path: 'plan.md' },
  ];
  const before = model.requests.length;
  const ctx = testContext(provider, { input: { prompt }, config: { mcpServers: ['words'] } });
  await provider.run(ctx);
  const told = model.requests.slice(before).map(({ body }) => JSON.stringify(body.messages));
  expect(told.some((messages) => messages.includes('the plan is marmalade'))).toBe(true);
  expect(told.at(-1)).toContain('3 words, version seven');
  expect(left()).toEqual([]);
}, 120_000);

test('secrets that a tool prints are redacted', async () => {
  const { agent, provider } = setUp();
  const ctx = testContext(provider, { input: '[bash:env]', answer: () => ({ approved: true }) });
  await provider.run(ctx);
  const everything = JSON.stringify([ctx.events, ctx.logs, ctx.actions]);
  expect(everything).toContain('OPENCODE_SERVER_PASSWORD');
  for (const secret of agent.secrets) expect(everything).not.toContain(secret);
});

test('a refused model request is a failure with its reason', async () => {
  const { provider, left } = setUp();
  const run = provider.run(testContext(provider, { input: '[fail:400]' }));
  await expect(run).rejects.toMatchObject({
    code: 'PROVIDER_ERROR',
    message: expect.stringContaining('the prompt asked for this failure'),
  });
  expect(left()).toEqual([]);
});

test('a cancel while it streams ends the turn and the request to the model', async () => {
  const { provider, left } = setUp();
  const ctx = testContext(provider, { input: '[slow:1000:20]' });
  const run = provider.run(ctx);
  await eventually(() => ctx.text.includes('word5'), 30_000);
  const begin = performance.now();
  ctx.abort();
  await expect(run).resolves.toEqual({ forced: false });
  expect(performance.now() - begin).toBeLessThan(4000);
  expect(left()).toEqual([]);
  await model.waitFor((request) => request.aborted && request.deltas > 0);
});

test('a cancel while a permission is open runs nothing', async () => {
  const { provider, workspace, left } = setUp();
  const ctx = testContext(provider, { input: '[bash:echo done > proof.txt]' });
  const run = provider.run(ctx);
  await eventually(() => ctx.actions.length === 1, 30_000);
  ctx.abort();
  await expect(run).resolves.toEqual({ forced: false });
  expect(ctx.actions).toMatchObject([{ state: 'withdrawn' }]);
  expect(existsSync(join(workspace, 'proof.txt'))).toBe(false);
  expect(left()).toEqual([]);
});

test('a cancel while a tool sleeps leaves no tool', async () => {
  const { provider, left } = setUp();
  const ctx = testContext(provider, { input: '[bash:sleep 600]', answer: () => ({ approved: true }) });
  const run = provider.run(ctx);
  await eventually(() => sleeper(left) !== undefined, 30_000);
  const tool = sleeper(left) ?? 0;
  ctx.abort();
  await expect(run).resolves.toMatchObject({ forced: expect.any(Boolean) });
  expect(isAlive(tool)).toBe(false);
  expect(left()).toEqual([]);
});

test('a kill -9 of the worker leaves neither agent nor tool', async () => {
  const { agent, left } = setUp();
  const runner = spawn(
    process.execPath,
    ['--import', 'tsx', fileURLToPath(new URL('../fixtures/run-agent.ts', import.meta.url))],
    { stdio: 'ignore', env: { ...process.env, AGENT: JSON.stringify(agent), INPUT: '[bash:sleep 600]' } },
  );
  try {
    await eventually(() => sleeper(left) !== undefined, 40_000);
    runner.kill('SIGKILL');
    await eventually(() => left().length === 0, 10_000);
  } finally {
    for (const pid of left()) process.kill(pid, 'SIGKILL');
  }
});
