/**
 * Ctrl-C while an execution is watched: the first one asks it to end, the second leaves it to itself. A terminal that is
 * closed, or a SIGTERM, leaves it at once: what is durable does not end with who looks at it.
 */
const LEAVE_CODES = { SIGTERM: 143, SIGHUP: 129 } as const;
const INTERRUPTED = 130;
/** npx hands on a Ctrl-C that the terminal has sent to us already: within this time, in milliseconds, it is the same. */
const SAME_MS = 300;

export class Interrupts {
  /** Aborts when whoever watches wants to leave. */
  readonly leaving = new AbortController();
  exitCode: number = INTERRUPTED;
  private asked = 0;
  private readonly handlers: [NodeJS.Signals, () => void][] = [];

  /** @param onFirst what the first Ctrl-C does; without it, it leaves */
  constructor(private readonly onFirst?: () => void) {
    this.on('SIGINT', () => this.interrupt());
    for (const [signal, code] of Object.entries(LEAVE_CODES) as [keyof typeof LEAVE_CODES, number][])
      this.on(signal, () => this.leave(code));
  }

  /** What Ctrl-C does, also when a prompt took the key. */
  interrupt(): void {
    const now = performance.now();
    if (this.asked === 0 && this.onFirst !== undefined) {
      this.asked = now;
      this.onFirst();
    } else if (now - this.asked > SAME_MS) this.leave(INTERRUPTED);
  }

  /** Back to what the signals do by themselves. */
  close(): void {
    for (const [signal, handler] of this.handlers) process.off(signal, handler);
  }

  private leave(code: number): void {
    this.exitCode = code;
    this.leaving.abort();
  }

  private on(signal: NodeJS.Signals, handler: () => void): void {
    process.on(signal, handler);
    this.handlers.push([signal, handler]);
  }
}
