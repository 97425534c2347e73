/** A worker of its own process with the `ai` provider, to be killed: `ai-worker.ts <JSON of the rig and the address>`. */
import { writeSync } from 'node:fs';
import { createWorker } from '../../worker/worker.js';
import { QUICK_POOL } from '../support/cluster.js';
import { rig } from './ai-rig.js';

const { address, ...options } = JSON.parse(process.argv[2] ?? '{}');
const worker = await createWorker({ address, providers: [rig(options)], pool: QUICK_POOL, drainMs: 0 });
writeSync(1, 'ready\n');
await worker.done;
process.exit(0);
