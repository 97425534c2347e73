/**
 * A worker in a process of its own, so that a test can kill it for real. Arguments, as one JSON text: see
 * `WorkerProcessOptions`. Says `{"ready":true}` on standard output once it polls.
 */
import { installFaultHook } from '../../activities/fault-points.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { createWorker } from '../../worker/worker.js';
import type { WorkerProcessOptions } from './kill.js';

const options = JSON.parse(process.argv[2] ?? '{}') as WorkerProcessOptions;

if (options.dieAt !== undefined) {
  const { point, after } = options.dieAt;
  let reached = 0;
  installFaultHook((at) => {
    if (at === point && ++reached > after) process.kill(process.pid, 'SIGKILL');
  });
}

const worker = await createWorker({
  address: options.address,
  providers: [scriptedProvider({ allowCrash: true })],
  pool: options.pool,
  drainMs: options.drainMs ?? 10_000,
  ...(options.rollover === undefined ? {} : { rollover: options.rollover }),
  ...(options.slots === undefined ? {} : { slots: { scripted: options.slots } }),
});
process.stdout.write('{"ready":true}\n');
await worker.done;
process.exit(0);
