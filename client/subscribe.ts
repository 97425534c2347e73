/**
 * A subscription whose beginning is known before it is read: whether the execution is there, the cursor is one of its
 * own, and something lies behind it. A server that streams needs this to choose a status before the first event.
 */
import type { Follower } from '../log/follower.js';
import type { Followers } from '../log/followers.js';
import { HoldfastError } from '../protocol/errors.js';
import type { HoldfastEvent } from '../protocol/event.js';

export interface Subscription {
  /** `backlog`: there are events after the cursor. `head`: it is at the last event so far. `end`: nothing will follow. */
  readonly at: 'backlog' | 'head' | 'end';
  /** As `HoldfastClient.events`. Leave it with `return()`, also when nothing was read. */
  readonly events: AsyncIterableIterator<HoldfastEvent>;
}

export interface SubscribeOptions {
  readonly after: number;
  readonly signal?: AbortSignal | undefined;
  /** How long to wait for the server's first answer, in milliseconds. */
  readonly timeoutMs: number;
  /** Refuses a cursor beyond the last event, by a fresh look at the log. */
  readonly refuseBeyond: (after: number) => Promise<void>;
}

/**
 * Subscribers of one execution share one reading of it: only a cursor that lies beyond what was read here so far costs
 * a look of its own. Errors are those of the reader, and `RUNTIME_UNAVAILABLE` when the server does not answer in time.
 */
export async function subscribe(
  followers: Followers,
  workflowId: string,
  options: SubscribeOptions,
): Promise<Subscription> {
  const { after, signal, timeoutMs } = options;
  const follower = followers.join(workflowId);
  try {
    const known = await firstRead(follower, after, timeoutMs, signal);
    if (after > known) await options.refuseBeyond(after);
    const inner = followers.events(workflowId, after, { signal });
    // It joins with its first `next()`. Ours is left only then, so that the follower goes on.
    const first = inner.next();
    first.catch(() => undefined);
    await new Promise<void>((resolve) => setImmediate(resolve));
    const at = known > after ? 'backlog' : follower.done === undefined ? 'head' : 'end';
    return { at, events: startingWith(first, inner) };
  } finally {
    followers.leave(follower);
  }
}

/** The last sequence that is known: at once when it lies after the cursor, else once what was there has been read. */
async function firstRead(
  follower: Follower,
  after: number,
  timeoutMs: number,
  outer: AbortSignal | undefined,
): Promise<number> {
  const giveUp = new AbortController();
  const timer = setTimeout(() => giveUp.abort(), timeoutMs);
  const signal = outer === undefined ? giveUp.signal : AbortSignal.any([outer, giveUp.signal]);
  try {
    for (;;) {
      if (follower.done?.error !== undefined) throw follower.done.error;
      const known = follower.current?.state.sequence ?? 0;
      if (known > after || (known > 0 && follower.caughtUp) || follower.done !== undefined) return known;
      if (signal.aborted)
        throw new HoldfastError(
          'RUNTIME_UNAVAILABLE',
          'the Temporal server does not answer; check its address and that it is up',
        );
      await follower.changed(signal);
    }
  } finally {
    clearTimeout(timer);
  }
}

function startingWith(
  first: Promise<IteratorResult<HoldfastEvent>>,
  inner: AsyncIterableIterator<HoldfastEvent>,
): AsyncIterableIterator<HoldfastEvent> {
  let pending: Promise<IteratorResult<HoldfastEvent>> | undefined = first;
  return {
    next: () => {
      const result = pending ?? inner.next();
      pending = undefined;
      return result;
    },
    return: async (value?: unknown) => (await inner.return?.(value)) ?? { done: true, value: undefined },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
