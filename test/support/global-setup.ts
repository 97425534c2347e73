/** Once before all tests: the workflow bundle is built and the server's binary is there, so no test waits for either. */
import { createHash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { resolveTemporalCli } from '../../dev/resolve.js';
import { bundleWorkflows } from '../../worker/workflow-bundle.js';

export async function setup(): Promise<void> {
  if (process.env.HOLDFAST_WORKFLOW_BUNDLE !== undefined) return;
  const { code } = await bundleWorkflows();
  const folder = fileURLToPath(new URL('../../node_modules/.cache/holdfast', import.meta.url));
  mkdirSync(folder, { recursive: true });
  const path = `${folder}/workflows-${createHash('sha256').update(code).digest('hex').slice(0, 16)}.js`;
  writeFileSync(path, code);
  process.env.HOLDFAST_WORKFLOW_BUNDLE = path;
  await resolveTemporalCli({ onProgress: (line) => process.stderr.write(`${line}\n`) });
}
