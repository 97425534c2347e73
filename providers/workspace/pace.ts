/**
 * When a workspace in use is measured next: sooner the faster it grows towards its bound, so that what is written beyond
 * it before anybody looks stays small; and never so often that measuring takes more than a tenth of the time.
 */

/** The least time between two looks, in milliseconds. */
const SHORTEST_MS = 100;
/** The first look may come before the interval: what is begun with is often what is largest. */
const FIRST_MS = 1000;

export class Pace {
  #bytes: number;
  #at = performance.now();

  /**
   * @param longestMs milliseconds between two looks at a workspace that does not grow
   * @param bytes of it now
   */
  constructor(
    private readonly longestMs: number,
    private readonly maxBytes: number,
    bytes: number,
  ) {
    this.#bytes = bytes;
  }

  get first(): number {
    return Math.min(this.longestMs, FIRST_MS);
  }

  /** Milliseconds to wait after a look that began at `begun` and found `bytes`; undefined: it failed. */
  next(begun: number, bytes: number | undefined): number {
    const now = performance.now();
    const perMs = bytes === undefined ? 0 : (bytes - this.#bytes) / Math.max(1, begun - this.#at);
    if (bytes !== undefined) {
      this.#bytes = bytes;
      this.#at = begun;
    }
    // At half of the way it is looked at again.
    const until = perMs > 0 ? (this.maxBytes - this.#bytes) / perMs / 2 : this.longestMs;
    const wanted = Math.min(this.longestMs, Math.max(SHORTEST_MS, until));
    return Math.max(wanted, 10 * (now - begun));
  }
}
