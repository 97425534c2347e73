/** Time limits of a run. */

/** A clock that stands still while somebody else has to act. */
export class TurnClock {
  readonly #limitMs: number;
  readonly expired: Promise<void>;
  #expire: () => void = () => {};
  #timer: NodeJS.Timeout | undefined;
  #leftMs: number;
  #since = 0;
  /** Its start takes one away. */
  #pauses = 1;

  /** @param limitMs milliseconds of running time until `expired` resolves */
  constructor(limitMs: number) {
    this.#limitMs = limitMs;
    this.#leftMs = limitMs;
    this.expired = new Promise((resolve) => {
      this.#expire = resolve;
    });
  }

  get limitMs(): number {
    return this.#limitMs;
  }

  start(): void {
    this.pause(false);
  }

  /** Pauses are counted: it runs while each has been taken back. */
  pause(paused: boolean): void {
    this.#pauses += paused ? 1 : -1;
    if (paused && this.#pauses === 1) {
      clearTimeout(this.#timer);
      this.#leftMs -= performance.now() - this.#since;
    } else if (!paused && this.#pauses === 0) {
      this.#since = performance.now();
      this.#timer = setTimeout(this.#expire, Math.max(0, this.#leftMs));
    }
  }

  stop(): void {
    this.#pauses = Number.POSITIVE_INFINITY;
    clearTimeout(this.#timer);
  }
}
