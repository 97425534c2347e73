/** `holdfast worker`: a worker as a configuration file describes it, until it is told to stop. */
import { rm, writeFile } from 'node:fs/promises';
import { createWorker } from '../worker/worker.js';
import { type ClusterFlags, clusterOf } from './cluster.js';
import { readWorkerConfig } from './config.js';

export interface WorkerFlags extends ClusterFlags {
  readonly config: string;
  /** A file that is there for as long as the worker takes work. */
  readonly readyFile?: string;
}

/** The line on standard output that says that executions can be submitted; whoever starts a worker may wait for it. */
export const READY = 'worker ready:';

/** Drains on SIGTERM and SIGINT; a second one skips the wait. */
export async function runWorker(flags: WorkerFlags, say: (line: string) => void): Promise<void> {
  const options = await readWorkerConfig(flags.config);
  const { address, namespace } = clusterOf(flags, options);
  const worker = await createWorker({ ...options, address, namespace });
  const ids = options.providers.map((provider) => provider.manifest.id).join(', ');
  if (flags.readyFile !== undefined) await writeFile(flags.readyFile, `${process.pid}\n`);
  say(`${READY} ${ids} on ${address}, namespace ${namespace} (process ${process.pid})`);
  await worker.done;
  if (flags.readyFile !== undefined) await rm(flags.readyFile, { force: true });
  say('worker stopped');
}
