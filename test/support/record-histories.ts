/**
 * Records one history per kind of ending into test/histories/, for the replay test. Run it when a change of workflow
 * code is meant to be incompatible, or for a new kind: `npx tsx test/support/record-histories.ts [name …]`. Histories of
 * released versions are never recorded again; a change of workflow code is `patched` instead.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { resolveTemporalCli } from '../../dev/resolve.js';
import { Cluster } from './cluster.js';
import { WorkerProcess } from './kill.js';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

const POOL = { heartbeatTimeoutMs: 1_000, leaseMs: 1_000, stopGraceMs: 1_000 };

const cluster = await Cluster.start();
const { path: temporal } = await resolveTemporalCli();
const only = process.argv.slice(2);

/** Each starts an execution and sees it to its end; the history of its first run is kept. */
const kinds: Record<string, () => Promise<string>> = {
  async succeeded() {
    const { id } = await cluster.run([
      { say: 'hello', chunk: 2, everyMs: 30 },
      { approve: { title: 'ok?' } },
      { artifact: { name: 'a', mediaType: 'text/plain' } },
      { ask: { title: 'how many?' } },
    ]);
    const approval = await cluster.action(id);
    await cluster.client.respond(id, approval.id, { approved: true });
    const input = await cluster.action(id, approval.sequence);
    await cluster.client.respond(id, input.id, { value: 3 });
    return id;
  },
  async failed() {
    return (await cluster.run([{ say: 'x' }, { fail: 'on purpose' }])).id;
  },
  async cancelled() {
    const { id } = await cluster.run([{ hang: true }]);
    await cluster.seen(id, (event) => event.type === 'run.started');
    await cluster.client.cancel(id, 'enough');
    return id;
  },
  async 'cancelled-by-signal-alone'() {
    const { id } = await cluster.run([{ approve: { title: 'ok?' } }], { suspend: true });
    await cluster.action(id);
    await cluster.handle(id).signal('cancel', { reason: 'from the UI' });
    return id;
  },
  async 'timed-out'() {
    return (await cluster.run([{ hang: true }], { timeoutSeconds: 1 })).id;
  },
  async 'suspended-and-resumed'() {
    const { id } = await cluster.run([{ say: 'a' }, { approve: { title: 'ok?' } }, { say: 'b' }], { suspend: true });
    const { id: actionId } = await cluster.action(id);
    await cluster.client.respond(id, actionId, { approved: true });
    return id;
  },
  async 'rolled-over'() {
    return (await cluster.run([{ say: 'x'.repeat(60), chunk: 1, everyMs: 30 }])).id;
  },
  async lost() {
    return await killed([{ say: 'abcdef', chunk: 1, everyMs: 200 }]);
  },
  async recovered() {
    return await killed([{ say: 'a' }, { record: 1 }, { say: 'abcdef', chunk: 1, everyMs: 200 }]);
  },
};

async function killed(steps: readonly object[]): Promise<string> {
  await worker.shutdown({ drainMs: 0 });
  const process = await WorkerProcess.start({ address: cluster.server.address, pool: POOL });
  const { id } = await cluster.run(steps);
  await cluster.seen(id, (event) => event.type === 'output.text.delta' && event.data.text === 'b');
  await process.kill();
  worker = await cluster.worker({ pool: POOL, rollover: { batches: 20 } });
  return id;
}

let worker = await cluster.worker({ pool: POOL, rollover: { batches: 20 } });
for (const [name, make] of Object.entries(kinds)) {
  if (only.length > 0 && !only.includes(name)) continue;
  let id: string;
  try {
    id = await make();
  } catch (error) {
    console.log(`${name}: not recorded: ${String(error)}`);
    continue;
  }
  await cluster.client.waitForTerminal(id);
  await cluster
    .handle(id)
    .result()
    .catch(() => undefined);
  const { raw } = await cluster.handle(id).describe();
  const runId = raw.workflowExecutionInfo?.firstRunId ?? '';
  const which = ['--workflow-id', `default.${id}`, '--run-id', runId, '--address', cluster.server.address];
  const shown = execFileSync(temporal, ['workflow', 'show', ...which, '--output', 'json'], { encoding: 'utf8' });
  const history = JSON.parse(shown) as { events: unknown[] };
  const json = JSON.stringify(history, hideMachine, 1);
  writeFileSync(fileURLToPath(new URL(`../histories/${name}.json`, import.meta.url)), `${json}\n`);
  console.log(`${name}: ${history.events.length} events`);
}
await cluster.stop();
process.exit(0);

function hideMachine(key: string, value: unknown): unknown {
  if (key === 'stackTrace' && typeof value === 'string') return value.replaceAll(ROOT, '');
  return key === 'identity' ? 'recorded' : value;
}
