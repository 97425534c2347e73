/**
 * The download that the Temporal SDK brings.
 *
 * The SDK downloads a server only together with starting it, and doing so installs the process-wide SDK runtime, which
 * then can't be configured any more. So a short-lived child process does it, and what it downloaded is kept.
 */
import { readdir, stat } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Program } from './programs.js';
import { isExecutable, lastLine, run } from './run.js';

const TIMEOUT_MS = 10 * 60 * 1000;
const NO_BYTES_MS = 20_000;

const SCRIPT = `
const [testing, kind, downloadDir, version] = process.argv.slice(1);
const { TestWorkflowEnvironment } = require(testing);
const create = kind === 'local' ? 'createLocal' : 'createTimeSkipping';
TestWorkflowEnvironment[create]({ server: { executable: { type: 'cached-download', downloadDir, version } } })
  .then((env) => env.teardown())
  .catch((error) => { console.error(String(error.message).replaceAll('\\n', ' ')); process.exit(1); });
`;

/**
 * Downloads the program into `folder` by the SDK.
 *
 * @returns the path of the program, executable
 * @throws Error with a one-line reason; at once where the download is blocked, after 20 s where it is silently dropped
 */
export async function downloadBySdk(program: Program, folder: string, env: NodeJS.ProcessEnv): Promise<string> {
  const testing = createRequire(import.meta.url).resolve('@temporalio/testing');
  const started = Date.now();
  const result = await run(
    process.execPath,
    ['-e', SCRIPT, testing, program.sdkServer, folder, `v${program.version}`],
    {
      env,
      timeoutMs: TIMEOUT_MS,
      giveUp: async () =>
        Date.now() - started > NO_BYTES_MS && (await bytesIn(folder)) === 0 ? 'no byte arrived within 20 s' : undefined,
    },
  );
  if (!result.ok) throw new Error(lastLine(result.output));
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    if (await isExecutable(path)) return path;
  }
  throw new Error('the SDK started a server but left no program');
}

async function bytesIn(folder: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(folder)) bytes += (await stat(join(folder, name)).catch(() => undefined))?.size ?? 0;
  return bytes;
}
