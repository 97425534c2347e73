/** `holdfast worker`: a worker as a configuration file describes it, until it is told to stop. */
import { rm, writeFile } from 'node:fs/promises';
import { HoldfastError } from '../../protocol/errors.js';
import { createWorker } from '../../worker/worker.js';
import { CONFIG_FILES } from '../config/read.js';
import { workerOptions } from '../config/worker-options.js';
import { Output } from '../output.js';
import { type CommonFlags, settingOf } from '../session.js';

export interface WorkerFlags extends CommonFlags {
  /** A file that is there for as long as the worker takes work. */
  readonly readyFile?: string;
  /** Only the queues of these providers. */
  readonly provider?: readonly string[];
}

/** The line on standard output that says that executions can be submitted; whoever starts a worker may wait for it. */
export const READY = 'worker ready:';

/** Drains on SIGTERM and SIGINT; a second one skips the wait. */
export async function worker(flags: WorkerFlags): Promise<undefined> {
  const { file, cluster } = await settingOf(flags);
  if (file.path === undefined)
    throw new HoldfastError(
      'VALIDATION_ERROR',
      `a worker needs a configuration: write ${CONFIG_FILES[0]} or ${CONFIG_FILES.at(-1)}, such as {"providers": {"scripted": {}}}, or name one by --config`,
    );
  const config = flags.provider === undefined ? file.config : { ...file.config, queues: [...flags.provider] };
  const options = workerOptions({ ...file, config });
  const running = await createWorker({ ...options, ...cluster });
  const { address, namespace } = cluster;
  const providers = options.providers.map((provider) => provider.manifest.id);
  const out = new Output(flags.json === true);
  if (flags.readyFile !== undefined) await writeFile(flags.readyFile, `${process.pid}\n`);
  out.tell(
    { type: 'ready', providers, address, namespace, pid: process.pid },
    `${READY} ${providers.join(', ')} on ${address}, namespace ${namespace} (process ${process.pid})`,
  );
  await running.done;
  if (flags.readyFile !== undefined) await rm(flags.readyFile, { force: true });
  out.tell({ type: 'stopped' }, 'worker stopped');
}
