/** What the command says when it is called wrongly, and what a configuration file may hold. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { clusterOf } from '../../cli/cluster.js';
import { readConfig } from '../../cli/config/read.js';
import { workerOptions } from '../../cli/config/worker-options.js';
import { oneLine, plain } from '../../cli/text.js';
import { removeScratches, run } from './command.js';

const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
/** The file as a worker would take it. */
const workerOf = async (path: string) => workerOptions(await readConfig(path));
const file = (content: unknown): string => {
  const path = join(folder, `${Math.random()}.json`);
  writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
};

afterAll(() => {
  rmSync(folder, { recursive: true });
  removeScratches();
});

test.each([
  [['nonsense'], /^holdfast: unknown command "nonsense"; there is: dev, setup, worker, .*, completion\n$/],
  [['demo', '--crahs'], /^holdfast: unknown option '--crahs' \(Did you mean --crash\?\)\n$/],
  [['setup', 'now'], /^holdfast: too many arguments for 'setup'. Expected 0 arguments but got 1.\n$/],
])('%s is refused with exit code 2 and says what there is', async (args, said) => {
  expect(await run(args)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(said) });
});

test('without a command it shows what there is and exits with 2; --help and --version exit with 0', async () => {
  const [bare, help, version] = await Promise.all([run([]), run(['--help']), run(['--version'])]);
  expect(bare).toMatchObject({ code: 2, stdout: '', stderr: help.stdout });
  for (const command of ['setup', 'worker', 'demo']) expect(help.stdout).toContain(command);
  expect(help).toMatchObject({ code: 0, stderr: '' });
  const { version: packaged } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  expect(version).toMatchObject({ code: 0, stdout: `${packaged}\n` });
});

test.each([
  ['{ "providers": ', /is not JSON/],
  [{}, /: providers: /],
  [{ providers: {} }, /: providers: name at least one: scripted, acp, ai, command$/],
  [{ providers: { scripted: {} }, slot: {} }, /: slot: there is no such key$/],
  [{ providers: { scripted: { crash: true } } }, /: providers\.scripted\.crash: there is no such key$/],
  [{ providers: { scripted: {} }, drainMs: '30s' }, /: drainMs: /],
  [{ providers: { scripted: {} }, drainMs: 2 ** 31 }, /: drainMs: /],
  [{ providers: { scripted: {} }, pool: { leaseMs: 0 } }, /: pool\.leaseMs: /],
  [{ providers: { scripted: {} }, slots: { acp: 2 } }, /: slots\.acp: there is no provider of this id/],
  [{ providers: { acp: { agents: { it: { command: 'bin/agent' } } } } }, /: providers\.acp\.agents\.it\.command: /],
])('a configuration of %j is refused and the key named', async (content, problem) => {
  const path = file(content);
  await expect(workerOf(path)).rejects.toMatchObject({
    code: 'VALIDATION_ERROR',
    message: expect.stringMatching(problem),
  });
  await expect(workerOf(path)).rejects.toThrow(path);
});

test('a wrong configuration fails the worker with one line; the stack is there for who asks', async () => {
  const path = file({ providers: { scripted: {} }, drainMs: -1 });
  const [short, long] = await Promise.all([
    run(['worker', '--config', path]),
    run(['worker', '--config', path], { env: { HOLDFAST_DEBUG: '1' } }),
  ]);
  expect(short.code).toBe(2);
  expect(short.stderr).toMatch(/^holdfast: VALIDATION_ERROR: .*drainMs: .*\n$/);
  expect(long.stderr).toContain('    at ');
});

test('a whole configuration becomes the options of a worker', async () => {
  const settings = {
    address: 'temporal:7233',
    namespace: 'shop',
    slots: { scripted: 5, agents: 1 },
    pool: { leaseMs: 5_000 },
    drainMs: 0,
  };
  const agents = { it: { command: 'agent', cwd: '/srv' } };
  const options = await workerOf(file({ ...settings, providers: { scripted: {}, acp: { id: 'agents', agents } } }));
  expect(options).toMatchObject(settings);
  expect(options.providers.map(({ manifest }) => manifest.id)).toEqual(['scripted', 'agents']);
});

test('the cluster is what the command line says, else the environment, else the file', () => {
  const env = { TEMPORAL_ADDRESS: 'env:1', TEMPORAL_NAMESPACE: 'env' };
  const saved = { address: 'file:1', namespace: 'file' };
  expect(clusterOf({ address: 'flag:1' }, saved, env)).toEqual({ address: 'flag:1', namespace: 'env' });
  expect(clusterOf({}, saved, {})).toEqual(saved);
  expect(clusterOf({}, {}, {})).toEqual({ address: 'localhost:7233', namespace: 'default' });
});

test('text of an agent has no control characters but newline and tab', () => {
  expect(plain('\u001b[31mred\u001b[0m\u0007 \u001b]0;title\u0007a\tb\r\nc\rd\u0000\u009b2J')).toBe('red a\tb\nc\nd2J');
  expect(plain('\u202eevil\u200b\u2028')).toBe('evil');
  expect(oneLine('a\n\nb \t c')).toBe('a b c');
  expect(oneLine('🙂🙂🙂🙂', 3)).toBe('🙂🙂…');
});
