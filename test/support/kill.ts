/** Worker processes that are killed for real: by a test, or by themselves at a fault point. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { FaultPoint } from '../../activities/fault-points.js';
import type { PoolSettings } from '../../workflows/messages.js';

export interface WorkerProcessOptions {
  readonly address: string;
  readonly pool: PoolSettings;
  readonly drainMs?: number;
  readonly rollover?: { readonly batches?: number; readonly bytes?: number };
  readonly slots?: number;
  /** The process kills itself with SIGKILL when it reaches this point for the (after + 1)th time. */
  readonly dieAt?: { readonly point: FaultPoint; readonly after: number };
}

export class WorkerProcess {
  private constructor(
    readonly child: ChildProcess,
    private readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>,
  ) {}

  /** Starts it and resolves when it polls. */
  static async start(options: WorkerProcessOptions): Promise<WorkerProcess> {
    const script = fileURLToPath(new URL('./worker-process.ts', import.meta.url));
    const child = spawn(process.execPath, ['--import', 'tsx', script, JSON.stringify(options)], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const said: string[] = [];
    child.stderr?.on('data', (chunk: Buffer) => said.push(chunk.toString()));
    const ended = once(child, 'exit').then(([code, signal]) => ({ code, signal }));
    const lines = createInterface({ input: child.stdout! });
    const ready = (async () => {
      for await (const line of lines) if (line.includes('"ready"')) return true;
      return false;
    })();
    const up = await Promise.race([ready, ended.then(() => false)]);
    if (!up) throw new Error(`the worker process did not come up:\n${said.join('').slice(-4000)}`);
    return new WorkerProcess(child, ended);
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** `kill -9`; resolves when it is gone. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** Resolves when it has died by itself. */
  async died(): Promise<{ code: number | null; signal: NodeJS.Signals | null }> {
    return await this.ended;
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }
}
