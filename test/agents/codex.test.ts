/**
 * A second real agent of another make: Codex through its ACP adapter, with a local model. It is 450 MB of packages, so
 * it is tried only where somebody installed it and says so.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { acpProvider } from '../../providers/acp/acp.js';
import { isAlive, processesWith } from '../support/processes.js';
import { eventually, testContext } from '../support/provider-context.js';
import { scratchFolder } from '../support/scratch.js';
import { type ResponsesModel, startResponsesModel } from './responses-model.js';

const CODEX = '@agentclientprotocol/codex-acp';
const VERSION = '2.6.0';
const folder = process.env.HOLDFAST_TEST_CODEX ?? '';
if (folder === '')
  console.log(
    `Codex is not tried. To try it: npm install --prefix DIR ${CODEX}@${VERSION} && HOLDFAST_TEST_CODEX=DIR npm run test:agents`,
  );

let model: ResponsesModel;
const folders: string[] = [];

beforeAll(async () => {
  model = await startResponsesModel();
});

afterAll(async () => {
  await model?.stop();
  for (const scratch of folders) await rm(scratch, { recursive: true, force: true });
});

function configuration(workspace: string): string {
  return `
model = "local-1"
model_provider = "local"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
check_for_update_on_startup = false
[model_providers.local]
name = "Local"
base_url = "${model.url}"
wire_api = "responses"
env_key = "LOCAL_KEY"
request_max_retries = 0
stream_max_retries = 0
supports_websockets = false
[projects."${workspace}"]
trust_level = "trusted"
`;
}

function setUp() {
  const home = scratchFolder('holdfast-codex-');
  const workspace = scratchFolder('holdfast-workspace-');
  folders.push(home, workspace);
  mkdirSync(join(home, 'codex'));
  writeFileSync(join(home, 'codex', 'config.toml'), configuration(workspace));
  const agent = {
    command: process.execPath,
    args: [join(folder, 'node_modules', CODEX, 'dist', 'index.js')],
    cwd: workspace,
    env: {
      PATH: process.env.PATH ?? '/usr/bin:/bin',
      HOME: home,
      CODEX_HOME: join(home, 'codex'),
      // Its default has escalations reviewed by a model: nobody would be asked.
      INITIAL_AGENT_MODE: 'workspace-write',
      NO_BROWSER: '1',
    },
    secretEnv: { LOCAL_KEY: model.apiKey },
  };
  // Everything that it starts inherits its HOME.
  return { provider: acpProvider({ agents: { codex: agent } }), workspace, left: () => processesWith(home) };
}

describe.skipIf(folder === '')('Codex', () => {
  test(`is the adapter ${VERSION}`, () => {
    const manifest = JSON.parse(readFileSync(join(folder, 'node_modules', CODEX, 'package.json'), 'utf8'));
    expect(manifest.version).toBe(VERSION);
  });

  test('streams its text and ends its turn', async () => {
    const { provider, left } = setUp();
    const ctx = testContext(provider, { input: '[slow:5:5]' });
    await provider.run(ctx);
    expect(ctx.text).toContain('word1 word2 word3 word4 word5');
    expect(ctx.sessions[0]).toMatchObject({ agents: { codex: { id: expect.any(String) } } });
    await eventually(() => left().length === 0, 10_000);
  });

  test('goes on with its session in a new process', async () => {
    const { provider, left } = setUp();
    const first = testContext(provider, { input: 'The code word is heliotrope. [say:Noted.]' });
    await provider.run(first);
    const session = first.sessions.at(-1);
    const second = testContext(provider, { input: 'Which word? [say:That one.]', ...(session ? { session } : {}) });
    await provider.run(second);
    expect(second.text).toContain('That one.');
    expect(second.text).not.toContain('Noted.');
    expect(JSON.stringify(model.asked.at(-1))).toMatch(/heliotrope.*Which word\?/s);
    await eventually(() => left().length === 0, 10_000);
  });

  test('asks for a permission; approved, the command runs', async () => {
    const { provider, workspace, left } = setUp();
    const ctx = testContext(provider, {
      input: '[bash:echo done > proof.txt][say:All done.]',
      answer: () => ({ approved: true }),
    });
    await provider.run(ctx);
    expect(ctx.actions).toMatchObject([{ kind: 'approval', title: expect.stringContaining('proof.txt') }]);
    expect(readFileSync(join(workspace, 'proof.txt'), 'utf8')).toBe('done\n');
    expect(ctx.text).toContain('All done.');
    await eventually(() => left().length === 0, 10_000);
  });

  test('rejected, the command does not run; it ends its turn as cancelled, which the log says', async () => {
    const { provider, workspace, left } = setUp();
    const ctx = testContext(provider, {
      input: '[bash:echo done > proof.txt][say:All done.]',
      answer: () => ({ approved: false }),
    });
    await provider.run(ctx);
    expect(ctx.native('acp.stop')).toMatchObject([{ stopReason: 'cancelled' }]);
    expect(existsSync(join(workspace, 'proof.txt'))).toBe(false);
    await eventually(() => left().length === 0, 10_000);
  });

  test('a cancel while it streams ends the turn and the request to the model', async () => {
    const { provider, left } = setUp();
    const aborted = model.aborted;
    const ctx = testContext(provider, { input: '[slow:1000:20]' });
    const run = provider.run(ctx);
    await eventually(() => ctx.text.includes('word5'), 30_000);
    ctx.abort();
    await expect(run).resolves.toMatchObject({ forced: expect.any(Boolean) });
    await eventually(() => model.aborted > aborted, 10_000);
    expect(left()).toEqual([]);
  });

  test('a cancel while a tool sleeps leaves no tool', async () => {
    const { provider, left } = setUp();
    const ctx = testContext(provider, { input: '[bash:sleep 600]', answer: () => ({ approved: true }) });
    const run = provider.run(ctx);
    const sleeper = () => left().find((pid) => processesWith('sleep\u0000600').includes(pid));
    await eventually(() => sleeper() !== undefined, 30_000);
    const tool = sleeper() ?? 0;
    ctx.abort();
    await expect(run).resolves.toMatchObject({ forced: expect.any(Boolean) });
    expect(isAlive(tool)).toBe(false);
    expect(left()).toEqual([]);
  });
});
