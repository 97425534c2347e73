/** A worker with the bench's provider and default settings. Tells when it polls, and its memory when asked. */
import { createWorker } from '../../worker/worker.js';
import { PROVIDER } from '../support/names.js';
import { benchProvider } from './provider.js';

const [address = ''] = process.argv.slice(2);
const worker = await createWorker({ address, providers: [benchProvider({ id: PROVIDER })] });
process.on('message', () => process.send?.(process.memoryUsage.rss()));
process.on('disconnect', () => process.exit(1));
process.send?.('ready');
await worker.done;
process.exit(0);
