/** Prompts carry files of the workspace and none from elsewhere; what an agent wrote can be named; servers go by name. */

import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../protocol/json.js';
import { type AcpOptions, acpProvider } from '../../providers/acp/acp.js';
import { agentScript } from '../support/acp-agents.js';
import { testContext } from '../support/provider-context.js';
import { scratchFolder } from '../support/scratch.js';

const PNG = Buffer.from('89504e470d0a1a0a', 'hex');
const sha256 = (content: string) => createHash('sha256').update(content).digest('hex');

function agent(mode: string, cwd: string, more: Partial<AcpOptions> = {}) {
  const it = { command: process.execPath, args: [agentScript('polite'), mode], cwd };
  return acpProvider({ agents: { it }, ...more });
}

async function run(provider: ReturnType<typeof agent>, input: Json, config: Json = {}) {
  const ctx = testContext(provider, { input, config });
  const error = await provider.run(ctx).then(
    () => undefined,
    (thrown: unknown) => thrown as Error & { code: string },
  );
  return { ctx, error };
}

describe('a prompt', () => {
  let cwd: string;
  const elsewhere = scratchFolder();
  beforeAll(() => {
    cwd = scratchFolder();
    mkdirSync(join(cwd, 'docs'));
    writeFileSync(join(cwd, 'docs', 'plan.md'), '# Plän\n');
    writeFileSync(join(cwd, 'docs', 'logo.png'), PNG);
    writeFileSync(join(cwd, 'data.bin'), Buffer.from([0, 255, 1]));
    writeFileSync(join(cwd, 'large.txt'), 'x'.repeat(2000));
    writeFileSync(join(elsewhere, 'secret'), 'not yours');
    symlinkSync(join(elsewhere, 'secret'), join(cwd, 'link'));
    symlinkSync(elsewhere, join(cwd, 'folder-link'));
    symlinkSync('docs/plan.md', join(cwd, 'good-link'));
    symlinkSync('nowhere', join(cwd, 'dangling'));
    execFileSync('mkfifo', [join(cwd, 'pipe')]);
  });

  test('carries images, files and links of the workspace', async () => {
    const prompt = [
      { type: 'text', text: 'look' },
      { type: 'image', path: 'docs/logo.png' },
      { type: 'image', data: 'aGk=', mimeType: 'image/png' },
      { type: 'resource', path: 'docs/plan.md' },
      { type: 'resource', path: 'data.bin' },
      { type: 'resource_link', path: join(cwd, 'good-link') },
    ];
    const { ctx, error } = await run(agent('mirror', cwd), { prompt });
    expect(error).toBeUndefined();
    const uri = (path: string) => pathToFileURL(join(cwd, path)).href;
    expect(JSON.parse(ctx.text).prompt).toEqual([
      { type: 'text', text: 'look' },
      { type: 'image', data: PNG.toString('base64'), mimeType: 'image/png', uri: uri('docs/logo.png') },
      { type: 'image', data: 'aGk=', mimeType: 'image/png' },
      { type: 'resource', resource: { uri: uri('docs/plan.md'), mimeType: 'text/markdown', text: '# Plän\n' } },
      { type: 'resource', resource: { uri: uri('data.bin'), mimeType: 'application/octet-stream', blob: 'AP8B' } },
      { type: 'resource_link', uri: uri('docs/plan.md'), name: 'plan.md', mimeType: 'text/markdown' },
    ]);
  });

  test.each([
    ['../x', /out of the workspace/],
    ['docs/../../x', /out of the workspace/],
    ['/etc/passwd', /out of the workspace/],
    ['link', /by a link/],
    ['folder-link/secret', /by a link/],
    ['dangling', /by a link/],
    ['docs', /no regular file/],
    ['pipe', /no regular file/],
    ['missing', /not there/],
    ['a\0b', /no path/],
    ['large.txt', /2000 bytes; the limit is 1000 \(maxAttachmentBytes\)/],
  ])('is refused with the path %j, and the block is named', async (path, message) => {
    const provider = agent('mirror', cwd, { maxAttachmentBytes: 1000 });
    const { error } = await run(provider, {
      prompt: [
        { type: 'text', text: 'x' },
        { type: 'resource', path },
      ],
    });
    expect(error).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.stringMatching(/^input\.prompt\[1\]: /) });
    expect(error?.message).toMatch(message);
    expect(error?.message).not.toContain('not yours');
  });

  test.each<[Json, RegExp]>([
    [{ type: 'image', path: 'docs/plan.md' }, /prompt\[0\]: .*no image/],
    [{ type: 'image', data: 'aGk=', mimeType: 'text/html' }, /prompt\[0\] is of type "image" and does not fit/],
    [{ type: 'image', data: 'not base64!', mimeType: 'image/png' }, /prompt\[0\] is of type "image"/],
    [{ type: 'audio', data: 'aGk=' }, /prompt\[0\] is of type "audio"/],
    [{ type: 'resource', path: 'x', uri: 'http://example.com' }, /prompt\[0\] is of type "resource"/],
  ])('of %j is refused', async (block, message) => {
    const { error } = await run(agent('mirror', cwd), { prompt: [block] });
    expect(error).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.stringMatching(message) });
  });

  test('carries no more than four of the largest files, whatever their number', async () => {
    const provider = agent('mirror', cwd, { maxAttachmentBytes: 2000 });
    const files = (count: number) => Array.from({ length: count }, () => ({ type: 'resource', path: 'large.txt' }));
    expect((await run(provider, { prompt: files(4) })).error).toBeUndefined();
    const { error } = await run(provider, { prompt: files(5) });
    const message = expect.stringMatching(/^input\.prompt\[4\]: .*all files together may have 8000/);
    expect(error).toMatchObject({ code: 'VALIDATION_ERROR', message });
  });

  test('that the agent cannot take is refused, and says what would do', async () => {
    const { error } = await run(agent('echo', cwd), { prompt: [{ type: 'resource', path: 'docs/plan.md' }] });
    expect(error).toMatchObject({ code: 'VALIDATION_ERROR', message: expect.stringContaining('resource_link') });
    const image = await run(agent('echo', cwd), { prompt: [{ type: 'image', path: 'docs/logo.png' }] });
    expect(image.error?.message).toMatch(/takes no images/);
  });
});

describe('MCP servers', () => {
  const servers: AcpOptions['mcpServers'] = {
    files: { type: 'stdio', command: '/opt/files', args: ['-v'], env: { A: '1' }, secretEnv: { KEY: 'mcp-secret-1' } },
    web: {
      type: 'http',
      url: 'https://mcp.example/',
      headers: { 'X-Team': 'a' },
      headerEnv: { Authorization: 'MCP_TEST_AUTH' },
    },
    old: { type: 'sse', url: 'https://mcp.example/sse' },
  };
  const mirrored = async (config: Json, more: Partial<AcpOptions> = {}) => {
    process.env.MCP_TEST_AUTH = 'Bearer mcp-secret-2';
    const { ctx, error } = await run(agent('mirror', scratchFolder(), { mcpServers: servers, ...more }), 'x', config);
    delete process.env.MCP_TEST_AUTH;
    return error ?? JSON.parse(ctx.text).servers;
  };

  test('are picked by name, passed with the session, and their secrets are redacted', async () => {
    expect(await mirrored({ mcpServers: ['web', 'files'] })).toEqual([
      {
        type: 'http',
        name: 'web',
        url: 'https://mcp.example/',
        headers: [
          { name: 'X-Team', value: 'a' },
          { name: 'Authorization', value: '[redacted]' },
        ],
      },
      {
        name: 'files',
        command: '/opt/files',
        args: ['-v'],
        env: [
          { name: 'A', value: '1' },
          { name: 'KEY', value: '[redacted]' },
        ],
      },
    ]);
    expect(await mirrored({})).toEqual([]);
  });

  test('that the agent cannot connect to fail the turn and say so', async () => {
    expect(await mirrored({ mcpServers: ['old'] })).toMatchObject({
      code: 'PROVIDER_ERROR',
      message: expect.stringMatching(/MCP server "old".*mcpCapabilities\.sse/),
    });
  });

  test('cannot be brought along by a request, and are in the manifest', () => {
    const provider = agent('mirror', '/', { mcpServers: servers });
    for (const mcpServers of [['other'], [{ command: 'sh' }], 'files'])
      expect(provider.config.safeParse({ mcpServers }).success).toBe(false);
    expect(provider.manifest.capabilities['extension.mcp']).toBe('native');
    expect(provider.manifest.metadata).toMatchObject({ mcpServers: ['files', 'web', 'old'] });
    expect(agent('mirror', '/').manifest.capabilities['extension.mcp']).toBe('unsupported');
    expect(agent('mirror', '/').config.safeParse({ mcpServers: ['files'] }).success).toBe(false);
  });
});

describe('what an agent wrote', () => {
  test('becomes descriptors with address, type, size and hash, and nothing outside does', async () => {
    const cwd = scratchFolder();
    const elsewhere = scratchFolder();
    symlinkSync(elsewhere, join(cwd, 'out'));
    mkdirSync(join(cwd, 'src'));
    const artifacts = { files: true, uri: 'https://files.example/{workspace}/{conversation}/{path}' };
    const provider = agent('writes', cwd, { artifacts });
    expect(provider.manifest.capabilities['artifact.list']).toBe('native');
    const { ctx, error } = await run(
      provider,
      JSON.stringify({
        'src/a b.ts': 'one',
        'src/failed.ts': 'two',
        'out/x': 'three',
        [join(elsewhere, 'y')]: 'four',
        'gone.txt': null,
      }),
    );
    expect(error).toBeUndefined();
    expect(ctx.artifacts).toMatchObject([
      {
        name: 'src/a b.ts',
        mediaType: 'text/x-typescript',
        uri: 'https://files.example/it/conv_test/src/a%20b.ts',
        metadata: { kind: 'file', path: 'src/a b.ts', bytes: 3, sha256: sha256('one') },
      },
    ]);
    expect(ctx.artifacts).toHaveLength(1);
  });

  test('and the diffs that it reported, where the worker wants them', async () => {
    const cwd = scratchFolder();
    const { ctx } = await run(
      agent('writes', cwd, { artifacts: { diffs: true } }),
      JSON.stringify({ 'a.md': 'new', '../b': '' }),
    );
    expect(ctx.artifacts).toMatchObject([
      {
        name: 'a.md',
        uri: pathToFileURL(join(cwd, 'a.md')).href,
        metadata: { kind: 'diff', toolCallId: 'call a.md', bytes: 3, sha256: sha256('new'), before: null },
      },
    ]);
    const none = await run(agent('writes', cwd), JSON.stringify({ 'a.md': 'new' }));
    expect(none.ctx.artifacts).toEqual([]);
  });

  test.each(['files.example/{path}', 'https://x/{secret}', 'https://x/{}'])('needs a sound template, not %j', (uri) => {
    expect(() => agent('writes', '/', { artifacts: { files: true, uri } })).toThrow(/artifacts\.uri: /);
  });
});
