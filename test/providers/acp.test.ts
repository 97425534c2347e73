/** What an agent says is in the log as it was said, and a turn ends as the agent ended it. */
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { providerManifestSchema } from '../../protocol/manifest.js';
import { acpProvider } from '../../providers/acp/acp.js';
import { agentScript, fixture } from '../support/acp-agents.js';
import { testContext } from '../support/provider-context.js';
import { scratchFolder } from '../support/scratch.js';

describe('a turn', () => {
  test('gives text, usage and the session, and leaves nothing behind', async () => {
    const { provider, left } = fixture('polite', 'echo');
    const ctx = testContext(provider, { input: 'hi there' });
    const result = await provider.run(ctx);
    expect(ctx.text).toBe('You said: hi there');
    expect(result).toEqual({ usage: { inputTokens: 11, outputTokens: 7 } });
    expect(ctx.sessions).toEqual([
      { agents: { fixture: { id: 'ses_fixture', place: 'directory of agent "fixture"' } } },
    ]);
    expect(left()).toEqual([]);
  });

  test.each([
    [{ text: 'a text' }, 'a text'],
    [
      {
        prompt: [
          { type: 'text', text: 'two ' },
          { type: 'text', text: 'blocks' },
        ],
      },
      'two blocks',
    ],
  ])('takes %j', async (input, said) => {
    const { provider } = fixture('polite', 'echo');
    const ctx = testContext(provider, { input });
    await provider.run(ctx);
    expect(ctx.text).toBe(`You said: ${said}`);
  });

  test.each([
    [
      {
        prompt: [
          { type: 'text', text: 'look' },
          { type: 'image', data: '', mimeType: 'image/png' },
        ],
      },
      /prompt\[1\].*"image"/,
    ],
    [{ prompt: [] }, /input must be/],
    [{ text: 'x', command: 'rm' }, /input must be/],
    ['', /input must be/],
    [7, /input must be/],
    [null, /input must be/],
  ])('refuses the input %j before anything starts', async (input, message) => {
    const { provider } = fixture('polite', 'echo', { agent: { command: '/nowhere/agent' } });
    const refused = await provider.run(testContext(provider, { input })).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.stringMatching(message) });
  });

  test('has every update in order, known or not, with all its fields', async () => {
    const { provider } = fixture('polite', 'updates');
    const ctx = testContext(provider);
    const result = await provider.run(ctx);
    expect(ctx.events.map((event) => event.data.name ?? event.data.text)).toEqual([
      'acp.plan',
      'acp.agent_thought_chunk',
      'acp.tool_call',
      'one ',
      'acp.tool_call_update',
      'acp.weather_update',
      'acp.session_update',
      'acp.agent_message_chunk',
      'acp.usage_update',
      'two',
    ]);
    expect(ctx.native('acp.tool_call')[0]?.update).toMatchObject({ kind: 'of the future', extra: { kept: true } });
    expect(ctx.native('acp.weather_update')[0]).toEqual({
      name: 'acp.weather_update',
      update: { sessionUpdate: 'weather_update', sky: 'blue' },
    });
    expect(ctx.native('acp.session_update')[0]?.update).toMatchObject({ sessionUpdate: 'not a name!' });
    expect(result.usage).toEqual({ costUsd: 0.25 });
  });

  test('cuts an update that is too large, too deep or not exact, and says so', async () => {
    const { provider } = fixture('polite', 'large_update');
    const ctx = testContext(provider);
    await provider.run(ctx);
    expect(ctx.native('acp.tool_call')[0]).toMatchObject({
      truncated: true,
      update: { toolCallId: 'c1', title: 'cat' },
    });
    expect(ctx.native('acp.plan')[0]).toMatchObject({ truncated: true });
    expect(ctx.native('acp.deep')[0]).toMatchObject({ truncated: true, update: { n: '9007199254740992' } });
    expect(ctx.text).toBe('done');
  });

  test('has the updates that came before and right after the session was known', async () => {
    const { provider } = fixture('polite', 'early_updates');
    const ctx = testContext(provider);
    await provider.run(ctx);
    const names = ctx.native('acp.available_commands_update').map((event) => JSON.stringify(event.update));
    expect(names).toEqual([expect.stringContaining('early'), expect.stringContaining('late')]);
  });

  test('has the last chunk in its text, in the same read as the answer or after it', async () => {
    const { provider } = fixture('polite', 'same_read');
    const ctx = testContext(provider);
    await provider.run(ctx);
    expect(ctx.text).toBe('first second third and the very last');
  });

  test('keeps all its text when the log takes it slowly', async () => {
    const { provider } = fixture('polite', 'same_read');
    const ctx = testContext(provider, { room: () => new Promise((resolve) => setTimeout(resolve, 800)) });
    await provider.run(ctx);
    expect(ctx.text).toBe('first second third and the very last');
  });
});

describe('a stop reason', () => {
  const stop = async (reason: string) => {
    const { provider } = fixture('polite', 'stop');
    const ctx = testContext(provider, { input: reason });
    const outcome = await provider.run(ctx).catch((error: unknown) => error);
    return { ctx, outcome };
  };

  test.each(['max_tokens', 'max_turn_requests'])('%s succeeds and is visible', async (reason) => {
    const { ctx, outcome } = await stop(reason);
    expect(outcome).toEqual({ usage: { inputTokens: 11, outputTokens: 7, costUsd: 0.25 } });
    expect(ctx.native('acp.stop')).toEqual([{ name: 'acp.stop', stopReason: reason, message: expect.any(String) }]);
  });

  test.each([
    ['refusal', /refus/],
    ['cancelled', /"cancelled" although nobody/],
    ['tired', /unknown stop reason: "tired"/],
  ])('%s fails and says so, and what it used is known', async (reason, message) => {
    const { ctx, outcome } = await stop(reason);
    expect(outcome).toMatchObject({ code: 'PROVIDER_ERROR', message: expect.stringMatching(message) });
    expect(ctx.text).toBe('so far');
    expect(ctx.usages).toEqual([{ costUsd: 0.25 }, { inputTokens: 11, outputTokens: 7 }]);
  });
});

describe('a mode', () => {
  test.each([
    ['modes', 'mode plan'],
    ['config_mode', 'option mode=plan'],
  ])('is set where the agent offers it (%s)', async (mode, said) => {
    const { provider } = fixture('polite', mode);
    const ctx = testContext(provider, { config: { mode: 'plan' } });
    await provider.run(ctx);
    expect(ctx.text).toContain(said);
  });

  test('that the agent does not have is refused with those it has', async () => {
    const { provider } = fixture('polite', 'modes');
    const run = provider.run(testContext(provider, { config: { mode: 'yolo' } }));
    await expect(run).rejects.toMatchObject({
      code: 'VALIDATION_ERROR',
      message: expect.stringMatching(/"yolo".*build, plan/),
    });
  });
});

describe('the environment', () => {
  test('of an agent is what is listed, and nothing else of ours', async () => {
    const canaries = { TEMPORAL_API_KEY: 'canary-1', DATABASE_URL: 'canary-2', NODE_OPTIONS: '--no-warnings' };
    const before = { ...process.env };
    Object.assign(process.env, canaries, { HOLDFAST_TEST_PASSED: 'passed on' });
    try {
      const { provider } = fixture('polite', 'environment', {
        agent: { env: { PLAIN: 'yes' }, passEnv: ['HOLDFAST_TEST_PASSED', 'HOLDFAST_TEST_NOT_SET'] },
      });
      const ctx = testContext(provider);
      await provider.run(ctx);
      expect(JSON.parse(ctx.text)).toEqual({
        PLAIN: 'yes',
        HOLDFAST_TEST_PASSED: 'passed on',
        HOLDFAST_TEST_WORD: expect.any(String),
        HOLDFAST_PROCESS: expect.stringMatching(/^[0-9a-f]{32}$/),
      });
    } finally {
      for (const name of [...Object.keys(canaries), 'HOLDFAST_TEST_PASSED']) delete process.env[name];
      Object.assign(process.env, before);
    }
  });

  test('keeps its secrets out of events, text in pieces, errors, standard error and logs', async () => {
    const secret = 'tok"en-5f3a9c';
    const { provider } = fixture('polite', 'leaky', { agent: { secretEnv: { SECRET_TOKEN: secret } } });
    const ctx = testContext(provider);
    const failure = await provider.run(ctx).catch((error: unknown) => error);
    const everything = JSON.stringify([ctx.events, ctx.logs, failure, String(failure)]);
    expect(failure).toMatchObject({
      code: 'PROVIDER_ERROR',
      message: expect.stringContaining('panic: token [redacted]'),
    });
    expect(ctx.text).toBe('whole [redacted], in pieces [redacted]');
    expect(ctx.native('acp.tool_call')[0]?.update).toMatchObject({ title: 'echo [redacted]' });
    const thoughts = ctx.native('acp.agent_thought_chunk').map((event) => JSON.stringify(event.update));
    expect(thoughts.join()).toContain('[redacted]');
    for (const leak of [secret, 'en-5f3a9c', '5f3a9c']) expect(everything).not.toContain(leak);
  });

  test('without HOME: the agent starts, or its own words say what it misses', async () => {
    const { provider } = fixture('hostile', 'needs_home');
    const run = provider.run(testContext(provider));
    await expect(run).rejects.toMatchObject({
      code: 'PROVIDER_ERROR',
      message: expect.stringMatching(/exited with code 2(.|\n)*HOME is not set/),
    });
    const home = fixture('hostile', 'needs_home', { agent: { env: { HOME: '/proc' } } });
    await expect(home.provider.run(testContext(home.provider))).resolves.toEqual({});
  });
});

describe('the configuration', () => {
  const agent = { command: process.execPath, args: [agentScript('polite'), 'echo'] };

  test('picks by name: agent, workspace, and nothing else', async () => {
    const here = scratchFolder('holdfast-acp-');
    const provider = acpProvider({
      agents: { one: agent, two: { ...agent, workspace: 'here' } },
      defaultAgent: 'one',
      workspaces: { here, gone: join(here, 'gone') },
    });
    expect(providerManifestSchema.parse(provider.manifest)).toMatchObject({ id: 'acp', topologies: ['subprocess'] });
    expect(provider.manifest.metadata).toEqual({
      agents: ['one', 'two'],
      workspaces: ['here', 'gone'],
      mcpServers: [],
    });
    for (const config of [{ agent: 'three' }, { workspace: '/etc' }, { command: 'sh' }, { cwd: here }, { mode: 1 }])
      expect(provider.config.safeParse(config).success).toBe(false);

    const run = async (config: { agent?: string; workspace?: string }) => {
      const ctx = testContext(provider, { config });
      await provider.run(ctx);
      return ctx.text;
    };
    await expect(run({})).rejects.toMatchObject({
      code: 'VALIDATION_ERROR',
      message: expect.stringContaining('here, gone'),
    });
    await expect(run({ workspace: 'gone' })).rejects.toMatchObject({
      code: 'PROVIDER_ERROR',
      message: 'the workspace "gone" is not there, or is no directory',
    });
    await expect(run({ workspace: 'here' })).resolves.toBe('You said: hello');
    await expect(run({ agent: 'two' })).resolves.toBe('You said: hello');
  });

  test.each([
    [{ agents: {} }, /agents: names no agent/],
    [{ agents: { a: { command: './agent', cwd: '/' } } }, /agents\.a\.command: .*relative/],
    [{ agents: { a: { command: 'agent' } } }, /agents\.a: needs "cwd"/],
    [{ agents: { a: { command: 'agent', cwd: 'here' } } }, /agents\.a\.cwd: .*absolute/],
    [{ agents: { a: { command: 'agent', workspace: 'b' } } }, /agents\.a\.workspace: "b" is not in "workspaces"/],
    [{ agents: { a: { command: 'agent', cwd: '/' } }, defaultAgent: 'b' }, /defaultAgent: "b"/],
    [{ agents: { a: { command: 'agent', cwd: '/', secretEnv: { KEY: 'abc' } } } }, /secretEnv\.KEY: .*too short/],
    [{ agents: { a: { command: 'agent', cwd: '/', shell: true } } }, /shell/],
    [{ agents: { a: { command: 'agent', cwd: '/' } }, turnTimeoutMs: -1 }, /turnTimeoutMs/],
  ])('refuses %j and names the place', (options, message) => {
    expect(() => acpProvider(options)).toThrow(expect.objectContaining({ code: 'VALIDATION_ERROR' }));
    expect(() => acpProvider(options)).toThrow(message);
  });
});
