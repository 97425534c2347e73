/** All live readers of a process: one follower an execution, shared, and a bounded number of long polls among them. */
import { HoldfastError } from '../protocol/errors.js';
import type { HoldfastEvent } from '../protocol/event.js';
import { Follower, type FollowerHooks } from './follower.js';
import { LongPolls } from './long-polls.js';
import type { LogReader } from './reader.js';

export interface FollowersOptions {
  /** Executions that are long-polled at once; the others are read in turn, every 1–5 s, later when they are over 500. */
  readonly maxLongPolls: number;
}

export interface ReaderOptions {
  /** Ends the iteration. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called once when the cursor lies ahead of what the follower has read: it may be behind, or the cursor is wrong. It
   * looks afresh, and rejects for the latter.
   */
  readonly ahead?: (signal: AbortSignal) => Promise<void>;
  /** What a reader is told of an error. */
  readonly translate?: (error: unknown) => unknown;
}

export class Followers {
  /** How often the server refused a poll for its own limits. */
  throttled = 0;
  private readonly polls: LongPolls;
  private readonly shared = new Map<string, { follower: Follower; readers: number }>();
  private closed = false;

  constructor(
    private readonly reader: LogReader,
    options: FollowersOptions,
    private readonly onThrottled: (workflowId: string, count: number) => void = () => undefined,
  ) {
    this.polls = new LongPolls(options.maxLongPolls);
  }

  /** Executions followed, and long polls held, at this moment. */
  get load(): { readonly followed: number; readonly polls: number } {
    return { followed: this.shared.size, polls: this.polls.size };
  }

  /** Joins the follower of one execution. Every `join` needs its `leave`. Throws `RUNTIME_UNAVAILABLE` once closed. */
  join(workflowId: string): Follower {
    if (this.closed) throw new HoldfastError('RUNTIME_UNAVAILABLE', 'this client was closed');
    const existing = this.shared.get(workflowId);
    if (existing !== undefined && existing.follower.done?.error === undefined) {
      existing.readers += 1;
      return existing.follower;
    }
    const hooks: FollowerHooks = {
      followed: () => this.shared.size,
      throttled: (id) => {
        this.throttled += 1;
        this.onThrottled(id, this.throttled);
      },
    };
    const follower = new Follower(workflowId, this.reader, this.polls, hooks);
    this.shared.set(workflowId, { follower, readers: 1 });
    return follower;
  }

  leave(follower: Follower): void {
    const entry = this.shared.get(follower.workflowId);
    if (entry?.follower !== follower) return;
    entry.readers -= 1;
    if (entry.readers > 0) return;
    this.shared.delete(follower.workflowId);
    follower.stop();
  }

  /** Stops everything. Readers that still wait get the end of their iteration. */
  close(): void {
    this.closed = true;
    for (const { follower } of this.shared.values()) follower.stop();
    this.shared.clear();
  }

  /**
   * Live events after `after`, to the log's end. An iterator made by hand, not a generator: `return()` while `next()`
   * waits has to end the wait, and a generator would queue it behind. It joins with the first `next()`, so that one
   * which is never read holds nothing.
   */
  events(workflowId: string, after: number, options: ReaderOptions = {}): AsyncIterableIterator<HoldfastEvent> {
    const { signal: outer, ahead, translate = (error) => error } = options;
    const leaving = new AbortController();
    const { signal } = leaving;
    // A signal of its own, since Node warns of one with more than ten listeners, and readers may well share `outer`.
    const unwanted = outer === undefined ? undefined : AbortSignal.any([outer]);
    let follower: Follower | undefined;
    let cursor = after;
    let ready: readonly HoldfastEvent[] = [];
    let position = 0;
    let checked = after === 0;
    const leave = (): void => {
      if (signal.aborted) return;
      leaving.abort();
      unwanted?.removeEventListener('abort', leave);
      if (follower !== undefined) this.leave(follower);
    };
    if (unwanted?.aborted) leave();
    else unwanted?.addEventListener('abort', leave, { once: true });
    const refill = async (): Promise<boolean> => {
      for (;;) {
        if (signal.aborted) return false;
        follower ??= this.join(workflowId);
        const state = follower.since(cursor);
        if (state !== undefined && 'behind' in state) {
          ready = await this.backlog(workflowId, cursor, state.behind, signal);
          position = 0;
          if (ready.length > 0) return true;
          continue;
        }
        if (state !== undefined && state.events.length > 0) {
          ready = state.events;
          position = 0;
          return true;
        }
        if (!checked && (follower.last !== undefined || follower.done !== undefined)) {
          checked = true;
          if (follower.done?.error === undefined && cursor > (follower.last ?? 0)) await ahead?.(signal);
          continue;
        }
        if (follower.done !== undefined) {
          if (follower.done.error !== undefined) throw follower.done.error;
          return false;
        }
        await follower.changed(signal);
      }
    };
    const next = async (): Promise<IteratorResult<HoldfastEvent>> => {
      try {
        if (signal.aborted || (position >= ready.length && !(await refill()))) {
          leave();
          return { done: true, value: undefined };
        }
      } catch (error) {
        const wanted = !signal.aborted;
        leave();
        if (!wanted) return { done: true, value: undefined };
        throw translate(error);
      }
      const event = ready[position++];
      if (event === undefined) return { done: true, value: undefined };
      cursor = event.sequence;
      return { done: false, value: event };
    };
    // Calls of next() take their turn, so that two at once never read the same event.
    let last: Promise<unknown> = Promise.resolve();
    return {
      next: () => {
        const result = last.then(next);
        last = result.catch(() => undefined);
        return result;
      },
      return: async () => {
        leave();
        return { done: true, value: undefined };
      },
      throw: async (error) => {
        leave();
        throw error;
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  /** The next stretch of what left the window: up to one run's worth. */
  private async backlog(
    workflowId: string,
    after: number,
    upTo: number,
    signal: AbortSignal,
  ): Promise<readonly HoldfastEvent[]> {
    for await (const events of this.reader.read(workflowId, after, signal)) {
      const wanted = events.filter((event) => event.sequence <= upTo);
      if (wanted.length > 0) return wanted;
    }
    return [];
  }
}
