/**
 * Who may hold a long poll. A server grants 1,200 per namespace, shared with the workers' own polls: with 1,300
 * followers no worker got a task any more (DESIGN §3, Followers are scarce). So a process holds at most `max`; those
 * that were quiet longest give way, and are read in turn instead.
 */
export interface Poller {
  /** When it last had news, in milliseconds. */
  readonly lastNews: number;
  /** Ends its long poll now; it goes on without one. */
  yieldPoll(): void;
}

/** One has to be quiet this much longer than another to lose its poll to it. */
const STEAL_AFTER_MS = 1_000;

export class LongPolls {
  private readonly holders = new Set<Poller>();

  constructor(private readonly max: number) {}

  get size(): number {
    return this.holders.size;
  }

  /** Whether `poller` may wait; true also when it holds one already. */
  hold(poller: Poller): boolean {
    if (this.holders.has(poller)) return true;
    if (this.holders.size < this.max) {
      this.holders.add(poller);
      return true;
    }
    let quietest: Poller | undefined;
    for (const holder of this.holders)
      if (quietest === undefined || holder.lastNews < quietest.lastNews) quietest = holder;
    if (quietest === undefined || poller.lastNews - quietest.lastNews < STEAL_AFTER_MS) return false;
    this.holders.delete(quietest);
    this.holders.add(poller);
    quietest.yieldPoll();
    return true;
  }

  release(poller: Poller): void {
    this.holders.delete(poller);
  }
}
