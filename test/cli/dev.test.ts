/** `holdfast dev` at a terminal: its ends, its state, and a configuration in code with an encrypting codec. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Connection } from '@temporalio/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { HoldfastClient } from '../../client/client.js';
import { freePort } from '../../dev/ports.js';
import type { Execution } from '../../protocol/execution.js';
import { AesCodec } from '../client/fixtures/aes-codec.js';
import { Built, type Terminal } from './built.js';
import { removeScratches } from './command.js';

const TIMEOUT = 180_000;
const CTRL_C = '\u0003';
/** In what is said, to be looked for in all that the server holds. */
const CANARY = 'CANARY-cli';
const CONFIG = `
import { echo } from '../../examples/echo-provider.ts';
import { AesCodec } from '../../test/client/fixtures/aes-codec.ts';
import { defineConfig } from '../../cli/config/schema.ts';
import { scriptedProvider } from '../../providers/scripted/provider.ts';

export default defineConfig({
  providers: { scripted: {}, custom: [echo, { ...scriptedProvider({ id: 'plain' }), recovery: 'none' }] },
  slots: { echo: 3 },
  dataConverter: { payloadCodecs: [new AesCodec(Buffer.alloc(32, 7))] },
});
`;

/** The one of the configuration. */
const codec = new AesCodec(Buffer.alloc(32, 7));
const folder = fileURLToPath(new URL(`../../.cache/dev-test-${process.pid}`, import.meta.url));
const config = join(folder, 'holdfast.config.ts');
let holdfast: Built;
let address: string;
let dev: Terminal;
let args: string[];

beforeAll(async () => {
  mkdirSync(folder, { recursive: true });
  writeFileSync(config, CONFIG);
  const [port, uiPort, gatewayPort] = [await freePort(), await freePort(), await freePort()];
  address = `127.0.0.1:${port}`;
  holdfast = new Built({ HOLDFAST_CONFIG: config });
  args = [
    'dev',
    '--port',
    port,
    '--ui-port',
    uiPort,
    '--gateway-port',
    gatewayPort,
    '--db',
    join(folder, 'state.db'),
  ].map(String);
  dev = await up();
}, TIMEOUT);

afterAll(async () => {
  dev?.type(CTRL_C);
  dev?.running.kill('SIGKILL');
  holdfast?.remove();
  rmSync(folder, { recursive: true, force: true });
  removeScratches();
}, TIMEOUT);

async function up(): Promise<Terminal> {
  const started = holdfast.atTerminal(args);
  await started.shows('Ctrl-C ends it.');
  return started;
}

const env = () => ({ env: { TEMPORAL_ADDRESS: address } });
const run = (...given: string[]) => holdfast.run(given, env());

/** Read by us: the command would take a hundred times as long, and has shown that it can. */
async function stateOf(id: string): Promise<Execution> {
  const client = await HoldfastClient.connect({ address, dataConverter: { payloadCodecs: [codec] } });
  try {
    return await client.getExecution(id);
  } finally {
    await client.close();
  }
}

/** JSON in which every text that is base64 is what it stands for. */
function decoded(json: string): string {
  return json.replaceAll(
    /"([A-Za-z0-9+/]{4,}={0,2})"/g,
    (all, text: string) => `${all}${Buffer.from(text, 'base64').toString('latin1')}`,
  );
}

test(
  'says where everything is; what is configured in code is used by all of its parts, and only they can read',
  async () => {
    const url = (name: string): string => new RegExp(`${name} +(\\S+)`).exec(dev.screen)?.[1] ?? '';
    expect(dev.screen).toContain('scripted, echo');
    const said = await run('run', `${CANARY} in`, '--provider', 'echo', '--quiet');
    expect(said).toMatchObject({ code: 0, stdout: `${CANARY} in\n` });
    const id = /exec_\w+/.exec(said.stderr)?.[0] ?? '';
    const [ui, docs, execution] = await Promise.all([
      fetch(url('UI')),
      fetch(`${url('Gateway')}/docs`),
      fetch(`${url('Gateway')}/v1/executions/${id}`).then((response) => response.json()),
    ]);
    expect([ui.status, docs.status]).toEqual([200, 200]);
    expect(execution).toMatchObject({ state: 'succeeded', input: `${CANARY} in`, finalOutput: `${CANARY} in` });
    const connection = await Connection.connect({ address });
    const workflow = { workflowId: `default.${id}` };
    const { workflowService } = connection;
    const raw = JSON.stringify(
      await Promise.all([
        workflowService.getWorkflowExecutionHistory({ namespace: 'default', execution: workflow }),
        workflowService.describeWorkflowExecution({ namespace: 'default', execution: workflow }),
      ]),
    );
    // Bytes are in base64 there.
    expect(decoded(raw)).toContain('binary/encrypted');
    expect(decoded(raw)).not.toContain(CANARY);
    await connection.close();
  },
  TIMEOUT,
);

test(
  'another one on its ports is refused with the flag that helps',
  async () => {
    const refused = await holdfast.run(args);
    expect(refused.code).toBe(2);
    expect(refused.stderr).toMatch(
      /^holdfast: VALIDATION_ERROR: 127\.0\.0\.1:\d+ is in use already.* by --port, or 0 for any/,
    );
  },
  TIMEOUT,
);

test(
  'Ctrl-C, which the whole group gets, records how the executions ended before the server goes; a fresh one takes the same ports',
  async () => {
    const steps = (...given: object[]): string => JSON.stringify({ steps: given, suspend: true });
    const [live, suspended] = await Promise.all([
      run('run', 'go', '-p', 'plain', '--detach', '--provider-config', steps({ hang: true })),
      run('run', 'go', '-p', 'scripted', '--json', '--provider-config', steps({ approve: { title: 'ok?' } })),
    ]);
    expect(suspended.code).toBe(4);
    const [id, waiting] = [live.stdout.trim(), /exec_\w+/.exec(suspended.stderr)?.[0] ?? ''];
    await expect.poll(async () => (await stateOf(id)).state, { timeout: 60_000 }).toBe('running');
    dev.type(CTRL_C);
    expect((await dev.ended).code).toBe(0);
    expect(dev.screen).toContain('Stopping. Ctrl-C again ends everything at once.');
    expect(dev.running.left()).toEqual({ processes: [], files: [] });

    dev = await up();
    const [ended, open] = await Promise.all([stateOf(id), stateOf(waiting)]);
    expect(ended).toMatchObject({ state: 'failed', error: { code: 'PROVIDER_LOST' } });
    expect(open).toMatchObject({ state: 'awaiting_approval' });
    expect((await run('approve', waiting)).code).toBe(0);
    await expect.poll(async () => (await stateOf(waiting)).state, { timeout: 60_000 }).toBe('succeeded');
  },
  TIMEOUT,
);

test(
  'Ctrl-C twice ends it at once',
  async () => {
    const deaf = JSON.stringify({ steps: [{ ignoreCancel: true }, { say: 'deaf' }, { hang: true }] });
    const { stdout } = await run('run', 'go', '-p', 'scripted', '--detach', '--provider-config', deaf);
    await expect.poll(async () => (await stateOf(stdout.trim())).state, { timeout: 60_000 }).toBe('running');
    dev.type(CTRL_C);
    await dev.shows('Stopping');
    await new Promise((resolve) => setTimeout(resolve, 400));
    dev.type(CTRL_C);
    expect((await dev.ended).code).toBe(130);
    await expect.poll(() => dev.running.left(), { timeout: 10_000 }).toEqual({ processes: [], files: [] });
  },
  TIMEOUT,
);
