/**
 * Checks the package as others get it: packed into a tarball, installed in a folder of its own, type-checked there and
 * run there against a real server. `npm run test:package`.
 */
import { execFile } from 'node:child_process';
import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Interrupted, Stage } from '../cli/stage.js';
import { startDevServer } from '../dev/server.js';
import { CONSUMER_RUN, CONSUMER_TSCONFIG, CONSUMER_TYPES, IMPORT_ALL } from './package-consumer.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const require = createRequire(import.meta.url);
const STEP_MS = 120_000;
const began = Date.now();

const stage = new Stage();
try {
  await check();
  console.log(`The package is fine (${seconds(began)} s).`);
} catch (error) {
  process.exitCode = error instanceof Interrupted ? error.exitCode : 1;
  if (!(error instanceof Interrupted)) console.error(error instanceof Error ? error.message : error);
} finally {
  await stage.close();
}

async function check(): Promise<void> {
  const packed = await stage.folder();
  await step('npm pack builds the tarball', () => npm(root, 'pack', '--silent', '--pack-destination', packed));
  const [name] = await readdir(packed);
  if (name === undefined) throw new Error('npm pack left no tarball');
  const tarball = join(packed, name);
  console.log(`  ${name}, ${Math.round((await stat(tarball)).size / 1024)} KiB`);

  await step('publint has nothing against it', () => program('publint', [tarball, '--strict']));
  await step('its types resolve for ESM (are the types wrong?)', () =>
    program('@arethetypeswrong/cli', [tarball, '--profile', 'esm-only', '--no-emoji']),
  );

  const consumer = await stage.folder();
  await writeFile(join(consumer, 'package.json'), JSON.stringify({ name: 'consumer', private: true, type: 'module' }));
  const nodeTypes = `@types/node@${await versionOf('@types/node')}`;
  await step('it installs in another folder', () =>
    npm(consumer, 'install', tarball, nodeTypes, '--prefer-offline', '--no-audit', '--no-fund', '--ignore-scripts'),
  );
  const installed = join(consumer, 'node_modules', 'holdfast');
  await step('it holds what runs and nothing else', () => checkContents(installed));

  await writeFile(join(consumer, 'tsconfig.json'), JSON.stringify(CONSUMER_TSCONFIG));
  await writeFile(join(consumer, 'consumer.ts'), CONSUMER_TYPES);
  await step('a strict TypeScript project compiles against it', () => program('typescript', ['-p', consumer], 'tsc'));

  // Without this file no bundle can be made: a worker that comes up has loaded the one that was built.
  await rm(join(installed, 'dist', 'workflows', 'index.js'));
  await writeFile(join(consumer, 'run.mjs'), CONSUMER_RUN);
  await step('each of its entry points loads', () =>
    node(['--input-type=module', '-e', IMPORT_ALL], { cwd: consumer }),
  );
  const server = await stage.hold(startDevServer(), (started) => started.stop());
  const env = { ...process.env, TEMPORAL_ADDRESS: server.address, TEMPORAL_NAMESPACE: server.namespace };
  await step('an ESM script runs a worker, an execution and a client with it', () =>
    node(['run.mjs'], { cwd: consumer, env }),
  );
  await step('its command works', async () => {
    const command = join(consumer, 'node_modules', '.bin', 'holdfast');
    const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8'));
    const said = await node([command, '--version'], { cwd: consumer, env });
    if (said.trim() !== version) throw new Error(`holdfast --version says ${said.trim()}, the package is ${version}`);
    return await node([command, 'setup'], { cwd: consumer, env });
  });
}

/** Runs one check. What its program has to say is shown when it fails, or when `work` gives it back. */
async function step(claim: string, work: () => Promise<unknown>): Promise<void> {
  const from = Date.now();
  const said = await work().catch((error: unknown) => {
    stage.signal.throwIfAborted();
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`✗ ${claim}\n${error instanceof Error ? error.message : String(error)}\n${stdout}${stderr}`);
  });
  stage.signal.throwIfAborted();
  console.log(`✓ ${claim} (${seconds(from)} s)`);
  for (const line of (typeof said === 'string' ? said : '').split('\n').filter((text) => text !== ''))
    console.log(`  ${line}`);
}

async function checkContents(folder: string): Promise<void> {
  const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  const paths = files.map((file) => join(file.parentPath, file.name).slice(folder.length + 1));
  const stray = paths.filter((path) => !/^(package\.json|README\.md|LICENSE|CHANGELOG\.md|dist\/)/.test(path));
  const wrong = paths.filter((path) => /(^|\/)test\/|(?<!\.d)\.ts$/.test(path));
  if (stray.length + wrong.length > 0) throw new Error(`it holds ${[...stray, ...wrong].join(', ')}`);
  for (const path of paths.filter((name) => name.endsWith('.js')))
    if (withMap(await readFile(join(folder, path), 'utf8')).includes(root)) throw new Error(`${path} names ${root}`);
}

/** A script with the source map that it holds in clear. */
function withMap(script: string): string {
  const [, map = ''] = /^\/\/# sourceMappingURL=data:[^,]*;base64,(\S+)/m.exec(script) ?? [];
  return script + Buffer.from(map, 'base64').toString();
}

async function npm(cwd: string, ...args: string[]): Promise<void> {
  await promisify(execFile)('npm', args, { cwd, timeout: STEP_MS, signal: stage.signal });
}

async function node(args: string[], options: { cwd: string; env?: NodeJS.ProcessEnv }): Promise<string> {
  const limits = { timeout: STEP_MS, signal: stage.signal, maxBuffer: 64 * 1024 * 1024 };
  return (await promisify(execFile)(process.execPath, args, { ...options, ...limits })).stdout;
}

/** Runs the program of a development dependency. */
async function program(name: string, args: string[], command?: string): Promise<void> {
  const folder = join(root, 'node_modules', name);
  const { bin } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'));
  const path = typeof bin === 'string' ? bin : command === undefined ? Object.values(bin)[0] : bin[command];
  await node([join(folder, String(path)), ...args], { cwd: root });
}

async function versionOf(name: string): Promise<string> {
  const path = join(dirname(require.resolve(`${name}/package.json`)), 'package.json');
  return JSON.parse(await readFile(path, 'utf8')).version;
}

function seconds(from: number): string {
  return ((Date.now() - from) / 1000).toFixed(1);
}
