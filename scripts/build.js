/**
 * Builds the package into dist/: the compiled modules, their types, and the workflow bundle that workers load.
 *
 * It is made beside dist/ and moved there when it is whole, so that a build that fails leaves the last one as it was,
 * and nobody who runs from dist/ meanwhile meets half of one. In JavaScript, since nothing is compiled before it.
 */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const fresh = join(root, '.cache', `build-${process.pid}`);
const old = `${fresh}-old`;

try {
  mkdirSync(fresh, { recursive: true });
  const tsc = join('node_modules', 'typescript', 'bin', 'tsc');
  const compiler = [tsc, '-p', 'tsconfig.build.json', '--outDir', fresh];
  if (spawnSync(process.execPath, compiler, { cwd: root, stdio: 'inherit' }).status !== 0)
    throw new Error('the sources do not compile');
  const { bundleWorkflows } = await import(pathToFileURL(join(fresh, 'worker', 'workflow-bundle.js')).href);
  const { code } = await bundleWorkflows();
  writeFileSync(join(fresh, 'workflow-bundle.js'), portable(code));
  chmodSync(join(fresh, 'cli', 'main.js'), 0o755);
  if (existsSync(dist)) renameSync(dist, old);
  renameSync(fresh, dist);
} catch (error) {
  console.error(`build: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
} finally {
  for (const folder of [fresh, old]) rmSync(folder, { recursive: true, force: true });
}

/** The bundle as if it had been made in dist/, with no path of this machine: neither in it nor in its source map. */
function portable(code) {
  const relative = (text) => text.replaceAll(`.cache/build-${process.pid}/`, 'dist/').replaceAll(root, '');
  return relative(code).replace(/(?<=^\/\/# sourceMappingURL=data:[^,]*;base64,)\S+/m, (map) =>
    Buffer.from(relative(Buffer.from(map, 'base64').toString())).toString('base64'),
  );
}
