/**
 * What a command holds while it runs, and letting go of it. Whatever ends the command (its own end, an error, Ctrl-C),
 * all is released in the reverse order; a second Ctrl-C ends every process and folder at once.
 */
import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { signalDescendants } from './descendants.js';

/** The command was told to stop. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';

  constructor(readonly exitCode: number) {
    super('interrupted');
  }
}

/** With what the shell expects: 128 and the number of the signal. */
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;
/** npm hands on a Ctrl-C that the terminal has sent to us already: within this time, in milliseconds, it is the same. */
const SAME_MS = 300;
const WATCH_MS = 200;

export class Stage {
  private readonly aborting = new AbortController();
  private readonly releases: (() => Promise<unknown>)[] = [];
  private readonly folders: string[] = [];
  private readonly handlers: [NodeJS.Signals, () => void][] = [];
  private readonly watch: NodeJS.Timeout | undefined;
  private interruptedAt = 0;

  /** @param onInterrupt called once, at the first interrupt: the place to say that it was heard */
  constructor(private readonly onInterrupt: () => void = () => undefined) {
    for (const [signal, exitCode] of Object.entries(SIGNALS) as [keyof typeof SIGNALS, number][]) {
      const handler = (): void => this.interrupt(exitCode);
      this.handlers.push([signal, handler]);
      process.on(signal, handler);
    }
    // Nobody reads any more: `| head`, or a terminal that was closed.
    process.stdout.on('error', () => this.interrupt(SIGNALS.SIGHUP));
    // A shell between npm and us dies of a SIGTERM and does not hand it on.
    const parent = process.ppid;
    if (process.env.npm_lifecycle_event !== undefined)
      this.watch = setInterval(() => {
        if (process.ppid !== parent && !this.signal.aborted) this.interrupt(SIGNALS.SIGTERM);
      }, WATCH_MS).unref();
  }

  /** Aborts at the first interrupt, with an `Interrupted`. */
  get signal(): AbortSignal {
    return this.aborting.signal;
  }

  /** What a question at the terminal needs to be taken back. */
  get asking(): { readonly signal: AbortSignal; readonly onInterrupt: () => void } {
    return { signal: this.signal, onInterrupt: () => this.interrupt() };
  }

  /** What a signal does: the first asks everything to end, the second ends it. */
  interrupt(exitCode: number = SIGNALS.SIGINT): void {
    if (!this.signal.aborted) {
      this.interruptedAt = Date.now();
      this.onInterrupt();
      this.aborting.abort(new Interrupted(exitCode));
    } else if (Date.now() - this.interruptedAt > SAME_MS) {
      signalDescendants('SIGKILL');
      for (const folder of this.folders) rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
      process.exit(exitCode);
    }
  }

  /** Waits for what is being started, and releases it at the end. An interrupt is heeded once it is there. */
  async hold<T>(starting: Promise<T>, release: (value: T) => Promise<unknown>): Promise<T> {
    const value = await starting;
    this.releases.push(() => release(value));
    this.signal.throwIfAborted();
    return value;
  }

  /** A temporary folder, removed at the end. */
  async folder(): Promise<string> {
    const path = await mkdtemp(join(tmpdir(), 'holdfast-'));
    this.folders.push(path);
    return await this.hold(Promise.resolve(path), () => rm(path, { recursive: true, force: true, maxRetries: 3 }));
  }

  /** Waits for a download, whose programs are ended by an interrupt. Nothing else may run beside it. */
  async download<T>(work: Promise<T>): Promise<T> {
    const ending = setInterval(() => {
      if (this.signal.aborted) signalDescendants('SIGTERM');
    }, WATCH_MS);
    try {
      return await work;
    } finally {
      clearInterval(ending);
      this.signal.throwIfAborted();
    }
  }

  /** Resolves at the first interrupt. */
  async interrupted(): Promise<void> {
    const { signal } = this;
    // A signal by itself does not keep the process alive.
    const alive = setInterval(() => undefined, 60_000);
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    clearInterval(alive);
  }

  /** Releases everything, the newest first. What cannot be released does not keep the rest. */
  async close(): Promise<void> {
    let failed: unknown;
    for (;;) {
      const release = this.releases.pop();
      if (release === undefined) break;
      await release().catch((error: unknown) => {
        failed ??= error;
      });
    }
    clearInterval(this.watch);
    for (const [signal, handler] of this.handlers) process.off(signal, handler);
    if (failed !== undefined && !this.signal.aborted) throw failed;
  }
}
