/** A worker of its own process with the `remote` provider, to be killed: `remote-worker.ts <JSON>`. */
import { writeSync } from 'node:fs';
import { remoteProvider } from '../../providers/remote/remote.js';
import { createWorker } from '../../worker/worker.js';
import { QUICK_POOL } from '../support/cluster.js';

const { address, remote } = JSON.parse(process.argv[2] ?? '{}');
const worker = await createWorker({ address, providers: [remoteProvider(remote)], pool: QUICK_POOL, drainMs: 0 });
writeSync(1, 'ready\n');
await worker.done;
process.exit(0);
