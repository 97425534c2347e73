/** Holdfast in processes of their own, where memory is measured: a worker, a gateway, and a reader. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export interface Replayed {
  readonly events: number;
  readonly milliseconds: number;
  /** Resident memory before the first read, and at its peak. */
  readonly idleBytes: number;
  readonly peakBytes: number;
}

/** Reads a log from its first event to its last, in a fresh process. */
export async function replayInProcess(address: string, executionId: string): Promise<Replayed> {
  const child = forked('./replay-process.ts', [address, executionId]);
  const replayed = (await said(child)) as Replayed;
  await ended(child);
  return replayed;
}

class Process {
  constructor(private readonly child: ChildProcess) {}

  /** Its resident memory as it is, without a garbage collection made for us. */
  async bytes(): Promise<number> {
    const answer = said(this.child);
    this.child.send('memory');
    return Number(await answer);
  }

  async stop(): Promise<void> {
    this.child.kill('SIGTERM');
    await ended(this.child);
  }
}

export class WorkerProcess extends Process {
  /** Starts a worker with the bench's provider, all settings at their defaults, and resolves when it polls. */
  static async start(address: string): Promise<WorkerProcess> {
    const child = forked('./worker-process.ts', [address]);
    await said(child);
    return new WorkerProcess(child);
  }
}

export class GatewayProcess extends Process {
  private constructor(
    child: ChildProcess,
    readonly url: string,
  ) {
    super(child);
  }

  /** Starts a gateway with its own client, all settings at their defaults, and resolves when it listens. */
  static async start(address: string): Promise<GatewayProcess> {
    const child = forked('./gateway-process.ts', [address]);
    return new GatewayProcess(child, String(await said(child)));
  }
}

function forked(script: string, args: readonly string[]): ChildProcess {
  return fork(fileURLToPath(new URL(script, import.meta.url)), args, { execArgv: ['--import', 'tsx'] });
}

/** The next message of a child; rejects when it dies instead. */
async function said(child: ChildProcess): Promise<unknown> {
  const over = new AbortController();
  try {
    const { signal } = over;
    const died = once(child, 'exit', { signal }).then(([code]) => {
      throw new Error(`a process of the bench ended with ${code}`);
    });
    const [message] = await Promise.race([once(child, 'message', { signal }), died]);
    return message;
  } finally {
    over.abort();
  }
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
}
