/**
 * A worker in a process of its own, so that a test can kill it for real. Arguments, as one JSON text: see
 * `WorkerProcessOptions`. Says `{"ready":true}` on standard output once it polls. Orders come on standard input, one
 * JSON text a line: `{"go":true}` (when it was started held) and `{"arm":…}`.
 */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { type FaultPoint, installFaultHook } from '../../activities/fault-points.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { createWorker } from '../../worker/worker.js';
import type { Trap, WorkerProcessOptions } from './kill.js';
import { markingProvider } from './marking-provider.js';

const options = JSON.parse(process.argv[2] ?? '{}') as WorkerProcessOptions;

const say = (line: object): void => {
  writeSync(1, `${JSON.stringify(line)}\n`);
};

let trap: Trap | undefined;
const caught = new Set<string>();

const spring = (point: FaultPoint): void => {
  say({ died: { point, caught: [...caught] } });
  process.kill(process.pid, 'SIGKILL');
};

let reached = 0;
installFaultHook((at, workflowId) => {
  const { dieAt } = options;
  if (dieAt !== undefined && at === dieAt.point && ++reached > dieAt.after) process.kill(process.pid, 'SIGKILL');
  if (trap === undefined || at !== trap.point) return undefined;
  if (caught.size === 0) setTimeout(() => spring(at), trap.waitMs);
  caught.add(workflowId);
  if (caught.size >= trap.executions) spring(at);
  // Held in the window until the process dies.
  return new Promise(() => undefined);
});

let go: () => void = () => undefined;
const gone = new Promise<void>((resolve) => {
  go = resolve;
});
const orders = createInterface({ input: process.stdin });
orders.on('line', (line) => {
  const order = JSON.parse(line) as { go?: true; arm?: Trap };
  if (order.go) go();
  if (order.arm !== undefined) {
    trap = order.arm;
    say({ armed: true });
  }
});
if (options.held) {
  say({ held: true });
  await gone;
}

const ids = options.providerIds ?? ['scripted'];
const worker = await createWorker({
  address: options.address,
  providers: [
    ...ids.map((id) => scriptedProvider({ allowCrash: true, id })),
    ...(options.marks === undefined
      ? []
      : [markingProvider(options.marks, 'journal'), markingProvider(options.marks, 'none')]),
  ],
  pool: options.pool,
  drainMs: options.drainMs ?? 10_000,
  ...(options.rollover === undefined ? {} : { rollover: options.rollover }),
  ...(options.slots === undefined ? {} : { slots: Object.fromEntries(ids.map((id) => [id, options.slots ?? 1])) }),
});
say({ ready: true });
await worker.done;
process.exit(0);
