import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openCodeAgent, resolveOpenCode } from '../../dev/opencode.js';

test('OpenCode gets an environment of its own, asks before it acts, and guards its HTTP API', () => {
  const options = { command: '/opt/opencode', home: '/h', model: { baseUrl: 'http://127.0.0.1:1/v1', apiKey: 'sk-x' } };
  const agent = openCodeAgent(options);
  expect(agent).toMatchObject({ command: '/opt/opencode', args: ['acp', '--pure'], cwd: '/h' });
  expect(openCodeAgent({ ...options, workspace: '/w' }).cwd).toBe('/w');

  const inherited = Object.keys(agent.env).filter((name) => !/^(OPENCODE_|npm_config_offline$|HOME$)/.test(name));
  expect(inherited).toEqual(['PATH', 'TMPDIR']);
  expect(agent.env.HOME).toBe('/h');
  expect(agent.env.OPENCODE_SERVER_PASSWORD).toMatch(/^[0-9a-f]{48}$/);
  expect(openCodeAgent(options).env.OPENCODE_SERVER_PASSWORD).not.toBe(agent.env.OPENCODE_SERVER_PASSWORD);
  expect(agent.secrets).toEqual([agent.env.OPENCODE_SERVER_PASSWORD, 'sk-x']);
  expect(JSON.parse(agent.env.OPENCODE_CONFIG_CONTENT!)).toMatchObject({
    model: 'local/local-1',
    enabled_providers: ['local'],
    provider: { local: { options: { baseURL: 'http://127.0.0.1:1/v1', apiKey: 'sk-x' } } },
    permission: { bash: 'ask', edit: 'ask' },
  });
});

test('finding OpenCode lists every step when none works', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-opencode-'));
  const error: unknown = await resolveOpenCode({ env: { PATH: '', HOLDFAST_CACHE_DIR: folder } }).catch((e) => e);
  expect(error).toMatchObject({
    steps: [
      { step: 'opencode on PATH', reason: 'not found' },
      { step: 'cache folder' },
      { step: expect.stringMatching(/^the npm package opencode-/), reason: 'npm is not on PATH' },
    ],
  });
  await rm(folder, { recursive: true });
});
