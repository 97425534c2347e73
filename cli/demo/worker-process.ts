/** Workers as processes of their own, for a demo that kills them. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { guard } from '../../dev/guard.js';
import { OutputTail } from '../../dev/run.js';
import { HoldfastError } from '../../protocol/errors.js';
import type { ClusterName } from '../cluster.js';
import { READY } from '../commands/worker.js';
import type { HoldfastConfig } from '../config/schema.js';

const START_MS = 30_000;
const STOP_MS = 5_000;
const MAIN = fileURLToPath(new URL(`../main.${import.meta.url.endsWith('.ts') ? 'ts' : 'js'}`, import.meta.url));

export interface WorkerProcess {
  readonly pid: number;
  /** `kill -9`; resolves when it is dead. */
  kill(): Promise<void>;
  /** Asks it to end, and makes it after five seconds. */
  stop(): Promise<void>;
}

/** Runs `holdfast worker` and resolves when it takes work. It ends with this process, however that ends. */
export async function startWorkerProcess(
  cluster: ClusterName,
  config: HoldfastConfig,
  folder: string,
): Promise<WorkerProcess> {
  const file = join(folder, 'holdfast.config.json');
  await writeFile(file, JSON.stringify(config, null, 2));
  const flags = ['--config', file, '--address', cluster.address, '--namespace', cluster.namespace];
  // In a group of its own: a Ctrl-C in the terminal is for the demo, which then ends it in its turn.
  const child = spawn(process.execPath, [...process.execArgv, MAIN, 'worker', ...flags], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  guard(child);
  const output = new OutputTail();
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk));
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', (error) => {
      output.push(error.message);
      resolve();
    });
  });
  const end = async (signal: NodeJS.Signals): Promise<void> => {
    child.kill(signal);
    const force = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
    await exited;
    clearTimeout(force);
  };

  const lines = createInterface({ input: child.stdout });
  const ready = new AbortController();
  lines.on('line', (line) => {
    if (line.startsWith(READY)) ready.abort();
  });
  const limit = setTimeout(() => child.kill('SIGKILL'), START_MS);
  await Promise.race([once(ready.signal, 'abort'), exited]);
  clearTimeout(limit);
  if (!ready.signal.aborted || child.pid === undefined) {
    await end('SIGKILL');
    throw new HoldfastError('RUNTIME_UNAVAILABLE', `a worker process did not start: ${output.text}`);
  }
  return { pid: child.pid, kill: () => end('SIGKILL'), stop: () => end('SIGTERM') };
}
