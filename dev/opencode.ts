/**
 * OpenCode, a real coding agent, for the demo and the tests: finding it, and running it by itself.
 *
 * "By itself" means that it talks to the given model and to nothing else, keeps its state in the given home, and asks
 * before it runs a command or edits a file.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cacheFolder, installInto } from './cache.js';
import { type FailedStep, ResolveError, type ResolveOptions } from './resolve.js';
import { findOnPath, isExecutable, lastLine, run } from './run.js';

/** The release that is fetched, and that was tried. */
export const OPENCODE_VERSION = '1.18.33';

/** npm's integrity of the packages that were tried; for the others npm's own check has to do. */
const INTEGRITY: Readonly<Record<string, string>> = {
  'opencode-linux-x64':
    'sha512-q/t/3p2CTxOT9y2kvjesb/LZab2+1eqlhhWA02Be6mjTtmYtNBcBsrI5yDo4Fw7ZSPBW2oyMIGMNRqiKQjiAWw==',
  'opencode-linux-x64-baseline':
    'sha512-1KQGBiiDDeL/VHHbHkOvvFo8Jr97WT5+C1tear+p7IcDTnXgVHXqIjU4O4jM4mHQzykTP2i884FCnW5LDa+zCA==',
};

const NPM_TIMEOUT_MS = 10 * 60 * 1000;
const VERSION_TIMEOUT_MS = 30_000;

export interface ResolvedOpenCode {
  command: string;
  version: string;
}

/**
 * Finds `opencode` on PATH, else in the cache folder, else fetches this platform's package from npm (60 MB) into it.
 * The package holds one native program; no install script runs.
 *
 * @throws ResolveError when none of it gave a program that tells its version
 */
export async function resolveOpenCode(
  options: Pick<ResolveOptions, 'env' | 'onProgress'> = {},
): Promise<ResolvedOpenCode> {
  const { env = process.env, onProgress = () => {} } = options;
  const failed: FailedStep[] = [];
  const attempt = async (step: string, find: () => Promise<string>): Promise<ResolvedOpenCode | undefined> => {
    try {
      const command = await find();
      return { command, version: await versionOf(command, env) };
    } catch (error) {
      failed.push({ step, reason: error instanceof Error ? error.message : String(error) });
      return undefined;
    }
  };

  const name = await packageName();
  const cacheFile = () => join(cacheFolder(env), 'opencode', `${OPENCODE_VERSION}-${name}`, 'opencode');
  const found =
    (await attempt('opencode on PATH', async () => {
      const path = await findOnPath('opencode', env);
      if (!path) throw new Error('not found');
      return path;
    })) ??
    (await attempt('cache folder', async () => {
      const cached = cacheFile();
      if (!(await isExecutable(cached))) throw new Error(`no ${cached}`);
      return cached;
    })) ??
    (await attempt(`the npm package ${name} ${OPENCODE_VERSION}`, async () => {
      const cached = cacheFile();
      await installInto(cached, (folder) => downloadPackage(name, folder, env, onProgress));
      onProgress(`opencode ${OPENCODE_VERSION} is ready in ${cached}`);
      return cached;
    }));
  if (found) return found;
  throw new ResolveError('opencode', failed, 'Install OpenCode (`npm install -g opencode-ai`) so that it is on PATH.');
}

/** Even `--version` writes into HOME and the temporary folder, so it gets ones of its own. */
async function versionOf(command: string, env: NodeJS.ProcessEnv): Promise<string> {
  const scratch = await mkdtemp(join(tmpdir(), 'holdfast-version-'));
  try {
    const own = { ...env, HOME: scratch, TMPDIR: scratch };
    const result = await run(command, ['--version'], { env: own, timeoutMs: VERSION_TIMEOUT_MS });
    if (!result.ok) throw new Error(`${command} does not run: ${lastLine(result.output)}`);
    return lastLine(result.output);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
}

/** `baseline` builds are for processors without AVX2, `musl` builds for systems without glibc. */
async function packageName(): Promise<string> {
  const parts = ['opencode', process.platform, process.arch];
  if (process.arch === 'x64' && !(await hasAvx2())) parts.push('baseline');
  if (process.platform === 'linux' && !hasGlibc()) parts.push('musl');
  return parts.join('-');
}

async function hasAvx2(): Promise<boolean> {
  if (process.platform !== 'linux') return false;
  const flags = await readFile('/proc/cpuinfo', 'utf8').catch(() => 'avx2');
  return flags.includes('avx2');
}

function hasGlibc(): boolean {
  const report: unknown = process.report?.getReport();
  if (typeof report !== 'object' || report === null || !('header' in report)) return true;
  const { header } = report;
  return typeof header === 'object' && header !== null && 'glibcVersionRuntime' in header;
}

async function downloadPackage(
  name: string,
  folder: string,
  env: NodeJS.ProcessEnv,
  onProgress: (line: string) => void,
): Promise<string> {
  const npm = await findOnPath('npm', env);
  if (!npm) throw new Error('npm is not on PATH');
  onProgress(`downloading ${name} ${OPENCODE_VERSION} (60 MB) with npm`);
  const flags = ['--ignore-scripts', '--no-save', '--no-audit', '--no-fund', '--no-update-notifier'];
  const result = await run(npm, ['install', ...flags, '--prefix', folder, `${name}@${OPENCODE_VERSION}`], {
    env,
    timeoutMs: NPM_TIMEOUT_MS,
  });
  if (!result.ok) throw new Error(firstError(result.output));
  await checkIntegrity(name, folder);
  return join(folder, 'node_modules', name, 'bin', 'opencode');
}

/** npm ends with the place of its log; what it could not do stands before that. */
function firstError(output: string): string {
  const lines = output.split('\n').filter((line) => line.startsWith('npm error') && !/^npm error code/.test(line));
  return lines[0] ?? lastLine(output);
}

async function checkIntegrity(name: string, folder: string): Promise<void> {
  const expected = INTEGRITY[name];
  if (expected === undefined) return;
  const lock = await readFile(join(folder, 'node_modules', '.package-lock.json'), 'utf8');
  if (!lock.includes(JSON.stringify(expected))) throw new Error(`${name} is not the package that was tried`);
}

export interface OpenCodeOptions {
  /** The program, from `resolveOpenCode`. */
  command: string;
  /** Folder in which it starts; `home` by default. A session names its own. */
  workspace?: string;
  /** Folder for its state. Keep it to load a session in another process. */
  home: string;
  /** An OpenAI-compatible server; `model` is `local-1` by default. */
  model: { baseUrl: string; apiKey: string; model?: string };
}

/** How to spawn an agent that speaks the Agent Client Protocol on its standard streams. */
export interface AgentCommand {
  command: string;
  args: string[];
  cwd: string;
  /** The whole environment: of this process's own only PATH is in it. */
  env: Record<string, string>;
  /** Values in `env` that nobody should see, to be redacted from what the agent says. */
  secrets: string[];
}

/** The command for one process of OpenCode. The password in it is drawn anew at each call. */
export function openCodeAgent({ command, workspace, home, model }: OpenCodeOptions): AgentCommand {
  // It always serves an HTTP API on 127.0.0.1 too; without a password any local process could drive it past our
  // permission requests.
  const password = randomBytes(24).toString('hex');
  return {
    command,
    args: ['acp', '--pure'],
    cwd: workspace ?? home,
    env: {
      PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
      HOME: home,
      // It unpacks libraries there and leaves them when it is killed.
      TMPDIR: home,
      OPENCODE_CONFIG_CONTENT: JSON.stringify(configuration(model)),
      OPENCODE_SERVER_PASSWORD: password,
      // Without it a plugin package of 98 MB is installed into HOME in the background.
      npm_config_offline: 'true',
      OPENCODE_PURE: '1',
      OPENCODE_DISABLE_AUTOUPDATE: '1',
      OPENCODE_DISABLE_CLAUDE_CODE: '1',
      OPENCODE_DISABLE_DEFAULT_PLUGINS: '1',
      OPENCODE_DISABLE_EXTERNAL_SKILLS: '1',
      OPENCODE_DISABLE_LSP_DOWNLOAD: '1',
      OPENCODE_DISABLE_MODELS_FETCH: '1',
      OPENCODE_DISABLE_PROJECT_CONFIG: '1',
      OPENCODE_DISABLE_SHARE: '1',
      OPENCODE_EXPERIMENTAL_DISABLE_FILEWATCHER: '1',
    },
    secrets: [password, model.apiKey],
  };
}

function configuration({ baseUrl, apiKey, model = 'local-1' }: OpenCodeOptions['model']) {
  const id = `local/${model}`;
  return {
    model: id,
    small_model: id,
    autoupdate: false,
    share: 'disabled',
    enabled_providers: ['local'],
    provider: {
      local: {
        npm: '@ai-sdk/openai-compatible',
        name: 'Local',
        options: { baseURL: baseUrl, apiKey },
        models: { [model]: { name: model, tool_call: true, limit: { context: 100_000, output: 4_000 } } },
      },
    },
    // Its default is to run commands and to edit without asking.
    permission: { bash: 'ask', edit: 'ask' },
  };
}
