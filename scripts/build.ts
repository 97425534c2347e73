/** Builds the package into dist/: the compiled modules, their types, and the workflow bundle that workers load. */
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bundleWorkflows } from '../worker/workflow-bundle.js';

const root = fileURLToPath(new URL('..', import.meta.url));
rmSync(`${root}/dist`, { recursive: true, force: true });
execFileSync(process.execPath, ['node_modules/typescript/bin/tsc', '-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
});
const { code } = await bundleWorkflows();
writeFileSync(`${root}/dist/workflow-bundle.js`, code);
