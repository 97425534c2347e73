/** What the command says when it is called wrongly, and what a configuration file may hold. */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from 'vitest';
import { clusterOf } from '../../cli/cluster.js';
import { readConfig } from '../../cli/config/read.js';
import { workerOptions } from '../../cli/config/worker-options.js';
import { Screen } from '../../cli/screen.js';
import { fold, oneLine, plain } from '../../cli/text.js';
import { Built } from './built.js';
import { type CommandOptions, removeScratches } from './command.js';

const holdfast = new Built();
const run = (args: readonly string[], options?: CommandOptions) => holdfast.run(args, options);
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
  holdfast.remove();
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
  for (const command of ['dev', 'setup', 'worker', 'serve', 'run', 'inbox', 'doctor', 'demo'])
    expect(help.stdout).toContain(command);
  expect(help).toMatchObject({ code: 0, stderr: '' });
  const { version: packaged } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
  expect(version).toMatchObject({ code: 0, stdout: `${packaged}\n` });
});

const idOf = ({ manifest }: { manifest: { id: string } }): string => manifest.id;
const elsewhere = { baseURL: 'https://agents.example', provider: 'it' };

test.each([
  ['{ "providers": ', /is not JSON/],
  [{}, /: providers: /],
  [{ providers: {} }, /: providers: name at least one: scripted, acp, ai, command, remote$/],
  [{ providers: { scripted: {} }, slot: {} }, /: slot: there is no such key$/],
  [{ providers: { scripted: { crash: true } } }, /: providers\.scripted\.crash: there is no such key$/],
  [{ providers: { scripted: {} }, drainMs: '30s' }, /: drainMs: /],
  [{ providers: { scripted: {} }, drainMs: 2 ** 31 }, /: drainMs: /],
  [{ providers: { scripted: {} }, pool: { leaseMs: 0 } }, /: pool\.leaseMs: /],
  [{ providers: { scripted: {} }, slots: { acp: 2 } }, /: slots\.acp: there is no provider of this id/],
  [{ providers: { remote: { provider: 'it' } } }, /: providers\.remote\.baseURL: /],
  [{ providers: { remote: [] } }, /: providers\.remote/],
  [{ providers: { remote: [{ ...elsewhere, token: 'x' }] } }, /: providers\.remote\.0\.options: .*"token"/],
  [
    { providers: { remote: { ...elsewhere, tokenEnv: 'NO_SUCH_TOKEN' } } },
    /remote\.tokenEnv: the variable NO_SUCH_TOKEN/,
  ],
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
    slots: { scripted: 5, agents: 1 },
    pool: { leaseMs: 5_000 },
    drainMs: 0,
  };
  const agents = { it: { command: 'agent', cwd: '/srv' } };
  const options = await workerOf(file({ ...settings, providers: { scripted: {}, acp: { id: 'agents', agents } } }));
  expect(options).toMatchObject(settings);
  expect(options.providers.map(idOf)).toEqual(['scripted', 'agents']);
});

test('a policy stands in the configuration of each provider that asks, and a wrong rule is named by its place', async () => {
  const place = { command: 'it', cwd: '/srv' };
  const local = { provider: 'openai-compatible', baseURL: 'http://127.0.0.1:1', model: 'm' };
  const all = (rule: object) => ({
    acp: { agents: { it: place }, policy: [{ agent: 'it', ...rule }] },
    ai: { models: { local }, policy: [{ model: 'local', ...rule }], scopes: ['execution'] },
    command: { commands: { it: { ...place, output: 'text' } }, policy: [{ program: 'it', ...rule }], scopes: [] },
  });
  const right = await workerOf(file({ providers: all({ command: 'npm test', answer: 'allow' }) }));
  expect(right.providers.map(idOf)).toEqual(['acp', 'ai', 'command']);
  for (const [name, options] of Object.entries(all({ command: 'npm test; ls', answer: 'allow' })))
    await expect(workerOf(file({ providers: { [name]: options } }))).rejects.toThrow(
      `: providers.${name}.policy.0.command: must be plain words`,
    );
});

test('runtimes elsewhere are one or several, each with an id', async () => {
  const ids = async (remote: unknown) => (await workerOf(file({ providers: { remote } }))).providers.map(idOf);
  expect(await ids(elsewhere)).toEqual(['remote']);
  expect(await ids([elsewhere, { ...elsewhere, id: 'coder' }])).toEqual(['remote', 'coder']);
});

test('the cluster is what the command line says, else the environment, else the file', () => {
  const env = { TEMPORAL_ADDRESS: 'env:1', TEMPORAL_NAMESPACE: 'env' };
  const saved = { address: 'file:1', namespace: 'file' };
  expect(clusterOf({ address: 'flag:1' }, saved, env)).toEqual({ address: 'flag:1', namespace: 'env' });
  expect(clusterOf({}, saved, {})).toEqual(saved);
  expect(clusterOf({}, {}, {})).toEqual({ address: 'localhost:7233', namespace: 'default' });
});

test('a flag or a file that names a cluster takes no key of Temporal’s default profile; the environment’s is for all', () => {
  const toml = file('[profile.default]\naddress = "cloud:7233"\nnamespace = "theirs"\napi_key = "of-the-cloud"\n');
  const home = mkdtempSync(join(folder, 'home-'));
  mkdirSync(join(home, 'temporalio'));
  copyFileSync(toml, join(home, 'temporalio', 'temporal.toml'));
  const env = { XDG_CONFIG_HOME: home, HOME: home };
  const key = { apiKey: 'of-the-cloud', tls: true };
  expect(clusterOf({}, {}, env)).toEqual({ address: 'cloud:7233', namespace: 'theirs', connection: key });
  const mine = { address: 'file:1', namespace: 'default' };
  expect(clusterOf({}, { address: 'file:1' }, env)).toEqual(mine);
  expect(clusterOf({ address: 'file:1' }, {}, env)).toEqual(mine);
  expect(clusterOf({}, mine, { ...env, TEMPORAL_API_KEY: 'given' })).toMatchObject({ connection: { apiKey: 'given' } });
  const tls = { TEMPORAL_TLS_SERVER_NAME: 'temporal.example' };
  expect(clusterOf(mine, {}, tls)).toMatchObject({ connection: { tls: { serverNameOverride: 'temporal.example' } } });
});

test('a configuration in code is its default export; two files are one too many', async () => {
  const place = mkdtempSync(join(folder, 'code-'));
  const path = join(place, 'holdfast.config.ts');
  const echo = JSON.stringify(fileURLToPath(new URL('../../examples/echo-provider.ts', import.meta.url)));
  writeFileSync(
    path,
    `import { echo } from ${echo};\nconst only: string = 'echo';\nexport default { providers: { custom: [echo] }, queues: [only] };\n`,
  );
  const found = await readConfig(undefined, {}, place);
  expect(found.config.queues).toEqual(['echo']);
  expect(workerOptions(await readConfig(path)).providers.map(({ manifest }) => manifest.id)).toEqual(['echo']);
  const written = (name: string, code: string): string => {
    writeFileSync(join(folder, name), code);
    return join(folder, name);
  };
  const strange = written('strange.ts', 'export default { providers: { custom: [{}] } };');
  await expect(workerOf(strange)).rejects.toThrow(/: providers\.custom\.0: must be a provider/);
  const broken = { code: 'VALIDATION_ERROR', message: expect.stringContaining('cannot be loaded') };
  await expect(workerOf(written('broken.ts', 'nonsense('))).rejects.toMatchObject(broken);
  writeFileSync(join(place, 'holdfast.config.json'), '{}');
  await expect(readConfig(undefined, {}, place)).rejects.toThrow(
    /there are holdfast\.config\.ts and holdfast\.config\.json/,
  );
});

test('completion is a script that the shell takes, made of what there is', async () => {
  const [bash, fish, none] = await Promise.all([
    run(['completion', 'bash']),
    run(['completion', 'fish']),
    run(['completion', 'tcsh']),
  ]);
  const complete = (...words: string[]): string =>
    execFileSync(
      'bash',
      [
        '-c',
        `${bash.stdout}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _holdfast; echo "\${COMPREPLY[*]}"`,
        'bash',
        ...words,
      ],
      {
        encoding: 'utf8',
      },
    ).trim();
  expect(complete('holdfast', 'wa')).toBe('watch');
  expect(complete('holdfast', 'run', 'hello', '--prov')).toBe('--provider --provider-config');
  expect(complete('holdfast', 'conversations', 'cl')).toBe('close');
  expect(complete('holdfast', 'conversations', 'create', '--meta')).toBe('--metadata');
  expect(fish.stdout).toContain('__fish_seen_subcommand_from watch');
  expect(none).toMatchObject({ code: 2, stdout: '' });
});

test('text of an agent has no control characters but newline and tab', () => {
  expect(plain('\u001b[31mred\u001b[0m\u0007 \u001b]0;title\u0007a\tb\r\nc\rd\u0000\u009b2J')).toBe('red a\tb\nc\nd2J');
  expect(plain('\u202eevil\u200b\u2028')).toBe('evil');
  expect(plain('a\u3164\u00adb\u{e0041}')).toBe('ab');
  expect(oneLine('a\n\nb \t c')).toBe('a b c');
  expect(oneLine('🙂🙂🙂🙂', 3)).toBe('🙂🙂…');
});

test('text of an agent stays behind its bar, however long its lines are and whatever ends them', () => {
  expect(fold('  12  text │ one two', 40)).toEqual(['  12  text │ one two']);
  expect(fold('  1 │ 12345678abcd', 14)).toEqual(['  1 │ 12345678', '    │ abcd']);
  expect(fold(plain('│ a\rsucceeded\r\n\nb'))).toEqual(['│ a', '│ succeeded', '│ ', '│ b']);
  expect(fold(`│ ${'漢'.repeat(5)}`, 10)).toEqual(['│ 漢漢漢漢', '│ 漢']);
  expect(fold(`│ a\t\t${'x'.repeat(10)}`, 22).every((line) => line.startsWith('│ '))).toBe(true);
  expect(fold('ours, as long as it is', 8)).toEqual(['ours, as long as it is']);
  const written = {
    columns: 20,
    isTTY: true,
    writable: true,
    said: '',
    write: (text: string) => (written.said += text),
  };
  new Screen(written as unknown as NodeJS.WriteStream).line(`│ ${'x '.repeat(200)}\rsucceeded after 1 s`);
  for (const line of written.said.trimEnd().split('\n')) expect(line).toMatch(/^ {3}│ .{1,15}$/);
});
