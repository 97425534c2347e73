/**
 * Builds the package into dist/: the compiled modules, their types, and the workflow bundle that workers load.
 *
 * It is made beside dist/ and moved there when it is whole, so that a build that fails leaves the last one as it was,
 * and nobody who runs from dist/ meanwhile meets half of one.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflows } from '../worker/workflow-bundle.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const fresh = join(root, '.cache', `build-${process.pid}`);
const old = `${fresh}-old`;

try {
  mkdirSync(fresh, { recursive: true });
  const tsc = join('node_modules', 'typescript', 'bin', 'tsc');
  const compiled = run(tsc, ['-p', 'tsconfig.build.json', '--outDir', fresh]);
  if (!compiled) throw new Error('the sources do not compile');
  const { code } = await bundleWorkflows();
  writeFileSync(join(fresh, 'workflow-bundle.js'), code);
  chmodSync(join(fresh, 'cli', 'main.js'), 0o755);
  if (existsSync(dist)) renameSync(dist, old);
  renameSync(fresh, dist);
} catch (error) {
  console.error(`build: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  for (const folder of [fresh, old]) rmSync(folder, { recursive: true, force: true });
}

/** Runs a program of Node's in the package's root; what it has to say goes where ours does. */
function run(script: string, args: readonly string[]): boolean {
  try {
    execFileSync(process.execPath, [script, ...args], { cwd: root, stdio: 'inherit' });
    return true;
  } catch {
    return false;
  }
}
