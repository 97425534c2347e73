/** Workers come and go with other builds of the workflows: what is finished is read, what is suspended goes on. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { bundleWorkflows } from '../../worker/workflow-bundle.js';
import { Cluster, PATIENT_POOL, types } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';

/** The source map, which the SDK wants last. */
const SOURCE_MAP = '//# sourceMappingURL=';

/** Changes the file and nothing that it does. */
function withStatement(code: string, statement: string): string {
  const end = code.lastIndexOf(SOURCE_MAP);
  expect(end).toBeGreaterThan(0);
  return `${code.slice(0, end)}\n;${statement}\n${code.slice(end)}`;
}

let cluster: Cluster;
let folder: string;
const bundles: string[] = [];

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-deploys-'));
  const { code } = await bundleWorkflows();
  for (const version of [1, 2]) {
    const path = join(folder, `workflows-${version}.js`);
    await writeFile(path, version === 1 ? code : withStatement(code, `void 'version ${version}';`));
    bundles.push(path);
  }
  cluster = await Cluster.start();
});

afterEach(() => vi.unstubAllEnvs());

afterAll(async () => {
  await deploy(2);
  const compared = await cluster.stopCompared();
  await rm(folder, { recursive: true, force: true });
  expect(compared.notCompared).toEqual([]);
});

async function deploy(version: 1 | 2) {
  vi.stubEnv('HOLDFAST_WORKFLOW_BUNDLE', bundles[version - 1]);
  return await cluster.worker({ pool: PATIENT_POOL });
}

it('an execution finished by one worker is read in full under another bundle, and with no worker', async () => {
  const first = await deploy(1);
  const { id } = await cluster.run([
    { say: 'a ' },
    { artifact: { name: 'report', mediaType: 'text/plain' } },
    { native: { name: 'test.note', n: 1 } },
    { say: 'done', chunk: 1 },
  ]);
  const live = await cluster.log(id);
  expectWhole(live);
  const execution = await cluster.client.getExecution(id);
  expect(execution).toMatchObject({ state: 'succeeded', finalOutput: 'a done' });
  await first.shutdown();

  const read = async () => {
    const client = await cluster.anotherClient();
    expect((await client.listEvents(id)).events).toEqual(live);
    expect((await client.listEvents(id, { after: 2 })).events).toEqual(live.slice(2));
    expect(await client.getExecution(id)).toEqual(execution);
    expect((await client.artifacts(id)).map(({ name }) => name)).toEqual(['report']);
    expect(await cluster.log(id)).toEqual(live);
  };
  await read();
  const second = await deploy(2);
  await read();
  await second.shutdown();
});

it('an execution suspended across the change of worker goes on', async () => {
  const first = await deploy(1);
  const steps = [{ say: 'a ' }, { approve: { title: 'one?' } }, { say: ' b ' }, { approve: { title: 'two?' } }];
  const { id } = await cluster.run(steps, { suspend: true });
  const reading = cluster.log(id);
  reading.catch(() => undefined);
  const one = await cluster.action(id);
  await first.shutdown();

  // Accepted with no worker at all; the next one goes on.
  await cluster.client.respond(id, one.id, { approved: true });
  const second = await deploy(2);
  const two = await cluster.action(id, one.sequence);
  await second.shutdown();

  const third = await deploy(1);
  await cluster.client.respond(id, two.id, { approved: false });
  expect(await cluster.client.waitForTerminal(id)).toMatchObject({ finalOutput: 'a approved b rejected' });
  const live = await reading;
  expectWhole(live);
  expect(types(live).filter((type) => type === 'action.responded')).toHaveLength(2);
  expect((await cluster.client.listEvents(id)).events).toEqual(live);
  await third.shutdown();
});
