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
  /** Scripted providers by these ids; `scripted` by default. */
  readonly providerIds?: readonly string[];
  /** Also the providers of marking-provider.ts, which leave their traces in this folder. */
  readonly marks?: string;
  /** Load everything, but connect only after `go`. */
  readonly held?: boolean;
  /** The process kills itself with SIGKILL when it reaches this point for the (after + 1)th time. */
  readonly dieAt?: { readonly point: FaultPoint; readonly after: number };
}

/**
 * Executions that reach the point are held there; the process kills itself when so many are, or `waitMs` after the
 * first: so that they all are in this window when it dies.
 */
export interface Trap {
  readonly point: FaultPoint;
  readonly executions: number;
  readonly waitMs: number;
}

interface Said {
  readonly ready?: true;
  readonly held?: true;
  readonly armed?: true;
  readonly died?: { readonly point: FaultPoint; readonly caught: readonly string[] };
}

export class WorkerProcess {
  /** Workflow ids that were in the window when a trap killed it. */
  caught: readonly string[] = [];
  private readonly waiting = new Map<keyof Said, () => void>();
  private readonly said: string[] = [];
  private readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;

  private constructor(readonly child: ChildProcess) {
    child.stderr?.on('data', (chunk: Buffer) => this.said.push(chunk.toString()));
    const lines = createInterface({ input: child.stdout! });
    lines.on('line', (line) => this.hear(line));
    // A process that is gone takes no orders.
    child.stdin?.on('error', () => undefined);
    const exited = once(child, 'exit').then(([code, signal]) => ({ code, signal }));
    // What it said last is read before anybody learns of its end.
    this.ended = Promise.all([exited, once(lines, 'close')]).then(([end]) => end);
  }

  /** Starts it and resolves when it polls; with `held`, when it is loaded and waits for `go`. */
  static async start(options: WorkerProcessOptions): Promise<WorkerProcess> {
    const script = fileURLToPath(new URL('./worker-process.ts', import.meta.url));
    const child = spawn(process.execPath, ['--import', 'tsx', script, JSON.stringify(options)], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    const started = new WorkerProcess(child);
    await started.hears(options.held ? 'held' : 'ready');
    return started;
  }

  get pid(): number {
    return this.child.pid!;
  }

  /** Lets a held one go; resolves when it polls. */
  async go(): Promise<void> {
    const ready = this.hears('ready');
    this.child.stdin?.write('{"go":true}\n');
    await ready;
  }

  async arm(trap: Trap): Promise<void> {
    const armed = this.hears('armed');
    this.child.stdin?.write(`${JSON.stringify({ arm: trap })}\n`);
    await armed;
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

  private hear(line: string): void {
    let said: Said;
    try {
      said = JSON.parse(line) as Said;
    } catch {
      return;
    }
    if (said.died !== undefined) this.caught = said.died.caught;
    for (const word of Object.keys(said) as (keyof Said)[]) this.waiting.get(word)?.();
  }

  private async hears(word: keyof Said): Promise<void> {
    const heard = new Promise<true>((resolve) => this.waiting.set(word, () => resolve(true)));
    const up = await Promise.race([heard, this.ended.then(() => false)]);
    if (!up) throw new Error(`the worker process ended before it was ${word}:\n${this.said.join('').slice(-4000)}`);
  }
}

/** The worker processes of one test file, with what all of them have in common. The next one is loaded beforehand. */
export class WorkerProcesses {
  private readonly running: WorkerProcess[] = [];
  private spare: Promise<WorkerProcess> | undefined;

  constructor(private readonly common: () => WorkerProcessOptions) {}

  async start(more?: Partial<WorkerProcessOptions>): Promise<WorkerProcess> {
    const process = more === undefined ? await this.spared() : await WorkerProcess.start({ ...this.common(), ...more });
    this.running.push(process);
    this.spare ??= WorkerProcess.start({ ...this.common(), held: true });
    // Told to whoever wants it.
    this.spare.catch(() => undefined);
    return process;
  }

  async killAll(): Promise<void> {
    for (const process of this.running.splice(0)) await process.kill();
  }

  /** Also the one that was to be the next. */
  async end(): Promise<void> {
    await this.killAll();
    await (await this.spare)?.kill();
    this.spare = undefined;
  }

  private async spared(): Promise<WorkerProcess> {
    const { spare } = this;
    this.spare = undefined;
    if (spare === undefined) return await WorkerProcess.start(this.common());
    const process = await spare;
    await process.go();
    return process;
  }
}
