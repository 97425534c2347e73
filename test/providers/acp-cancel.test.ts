/** After a cancel, and after our own death, nothing of an agent is left. */
import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { AgentConnection } from '../../providers/acp/connection.js';
import { openSession } from '../../providers/acp/session.js';
import { SessionUpdates } from '../../providers/acp/updates.js';
import { Redactor } from '../../providers/process/redact.js';
import { agentScript, fixture } from '../support/acp-agents.js';
import { isAlive, parentOf, processesWith } from '../support/processes.js';
import { eventually, testContext } from '../support/provider-context.js';

describe('a cancel', () => {
  test('before the start starts nothing', async () => {
    const { provider } = fixture('polite', 'echo');
    const ctx = testContext(provider);
    ctx.abort();
    await expect(provider.run(ctx)).resolves.toEqual({});
    expect(ctx.text).toBe('');
  });

  test('while an agent streams lets it end its turn, and logs nothing more', async () => {
    const { provider, left } = fixture('polite', 'stream', { cancelGraceMs: 10_000 });
    const ctx = testContext(provider);
    const run = provider.run(ctx);
    await eventually(() => ctx.text.includes('tick tick'));
    const begin = performance.now();
    ctx.abort();
    const said = ctx.text;
    await expect(run).resolves.toEqual({ forced: false });
    expect(performance.now() - begin).toBeLessThan(3000);
    expect(ctx.text).toBe(said);
    expect(left()).toEqual([]);
  });

  test.each([false, true])(
    'while a permission is open answers it at once (slow runtime: %s)',
    async (slowToWithdraw) => {
      const { provider, left } = fixture('polite', 'ask', { cancelGraceMs: 10_000 });
      const ctx = testContext(provider, { slowToWithdraw });
      const run = provider.run(ctx);
      await eventually(() => ctx.actions.length === 1);
      const begin = performance.now();
      ctx.abort();
      await expect(run).resolves.toEqual({ forced: false });
      expect(performance.now() - begin).toBeLessThan(3000);
      expect(ctx.actions).toMatchObject([{ state: 'withdrawn' }]);
      expect(left()).toEqual([]);
    },
  );

  test('while the agent starts does not wait for it', async () => {
    const { provider, left } = fixture('hostile', 'silent_session');
    const ctx = testContext(provider);
    const run = provider.run(ctx);
    await eventually(() => left().length > 0);
    ctx.abort();
    await expect(run).resolves.toMatchObject({ forced: expect.any(Boolean) });
    expect(left()).toEqual([]);
  });

  test('that the agent ignores ends it when its input closes', async () => {
    const { provider, left } = fixture('hostile', 'ignores_cancel');
    const ctx = testContext(provider);
    const run = provider.run(ctx);
    await eventually(() => ctx.text.includes('tick'));
    ctx.abort();
    await expect(run).resolves.toEqual({ forced: false });
    expect(left()).toEqual([]);
  });

  test('that the agent ignores, with the end of its input and TERM, kills it and its tool', async () => {
    const { provider, left } = fixture('hostile', 'ignores_all');
    const ctx = testContext(provider);
    const run = provider.run(ctx);
    await eventually(() => ctx.text === 'working' && left().length >= 2);
    ctx.abort();
    await expect(run).resolves.toEqual({ forced: true });
    expect(left()).toEqual([]);
  });

  test('finds a tool in a session of its own and without our environment', async () => {
    const { provider, left } = fixture('hostile', 'hidden_tool', {
      agent: { args: [agentScript('hostile'), 'hidden_tool'] },
    });
    const ctx = testContext(provider);
    const run = provider.run(ctx);
    await eventually(() => ctx.text === 'working');
    const [agent] = left();
    const tools = processesWith('/bin/sleep\u0000600').filter((pid) => parentOf(pid) === agent);
    expect(tools).toHaveLength(1);
    ctx.abort();
    await expect(run).resolves.toEqual({ forced: true });
    expect(processesWith('/bin/sleep\u0000600')).not.toContain(tools[0]);
  });

  test('ends a wait for room in the log', async () => {
    const { provider, left } = fixture('polite', 'stream');
    const ctx = testContext(provider, { room: () => new Promise(() => {}) });
    const run = provider.run(ctx);
    await eventually(() => ctx.sessions.length === 1);
    ctx.abort();
    await expect(run).resolves.toMatchObject({ forced: expect.any(Boolean) });
    expect(left()).toEqual([]);
  });
});

test.each(['silent', 'ignores_all'])(
  'kill -9 of our own process leaves nothing (%s)',
  async (mode) => {
    const word = `killed-${process.pid}-${mode}`;
    const runner = spawn(
      process.execPath,
      [
        '--import',
        'tsx',
        fileURLToPath(new URL('../fixtures/run-acp.ts', import.meta.url)),
        agentScript('hostile'),
        mode,
      ],
      { stdio: 'ignore', env: { ...process.env, HOLDFAST_TEST_WORD: word } },
    );
    try {
      const childrenOf = (parent: number | undefined, what: string) =>
        processesWith(what).filter((pid) => parentOf(pid) === parent);
      const agents = () => childrenOf(runner.pid, `hostile.mjs\u0000${mode}`);
      await eventually(() => agents().length === 1, 20_000);
      if (mode === 'ignores_all') await eventually(() => childrenOf(agents()[0], '/bin/sleep').length === 1);
      await eventually(() => childrenOf(runner.pid, 'holdfast-guard').length === 1);
      const [guard = 0] = childrenOf(runner.pid, 'holdfast-guard');
      runner.kill('SIGKILL');
      await eventually(() => processesWith(word).length === 0, 10_000);
      await eventually(() => !isAlive(guard), 10_000);
    } finally {
      for (const pid of processesWith(word)) process.kill(pid, 'SIGKILL');
    }
  },
  40_000,
);

test('the guard goes when the last agent has gone', async () => {
  const guards = () => processesWith('holdfast-guard').filter((pid) => parentOf(pid) === process.pid);
  const { provider } = fixture('polite', 'ask');
  const ctx = testContext(provider);
  const run = provider.run(ctx);
  await eventually(() => ctx.actions.length === 1 && guards().length === 1);
  ctx.respond({ approved: true });
  await run;
  await eventually(() => guards().length === 0);
});

test('what a loaded session tells again is not logged, what comes after it is', async () => {
  const ctx = testContext(fixture('polite', 'load').provider);
  const updates = new SessionUpdates(ctx, new Redactor([]));
  const agent = new AgentConnection({
    launch: {
      agent: 'fixture',
      cwd: '/',
      place: 'here',
      label: 'here',
      settings: { command: process.execPath, args: [agentScript('polite'), 'load'] },
    },
    maxMessageBytes: 1_000_000,
    onUpdate: (params) => updates.accept(params),
    onPermission: () => Promise.reject(new Error('nobody asks')),
    onNoise: () => {},
    onUnknown: () => {},
  });
  const turn = { cwd: '/', previous: 'ses_earlier', continuity: 'native', clientVersion: '1' } as const;
  const session = await openSession(agent, updates, { ...turn, mcpServers: [], needs: [] });
  expect(session).toEqual({ id: 'ses_earlier', continued: true });
  await updates.accept({
    sessionId: session.id,
    update: { sessionUpdate: 'agent_message_chunk', content: { type: 'text', text: 'new' } },
  });
  await agent.stop();
  expect(ctx.text).toBe('new');
});
