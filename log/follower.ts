/**
 * One execution's log, followed live. Every reader of it in this process shares this one poll; they pull from its
 * window at their own pace, and read history by themselves when they are further behind than the window reaches.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { HoldfastEvent } from '../protocol/event.js';
import type { Verdict } from '../protocol/log/state.js';
import { isEnded, type RunFold } from './fold.js';
import { GRPC, grpcCode } from './grpc.js';
import type { HistoryItem, HistoryPage } from './history.js';
import type { LongPolls, Poller } from './long-polls.js';
import { type LogReader, startFold } from './reader.js';

/**
 * A follower without a long poll looks this often, at first and at most; each look waits for `LOOK_MS`, beside twice
 * what the server took for what was there already: one that is 200 ms away would never answer within 100.
 */
const TURN_MIN_MS = 1_000;
const TURN_MAX_MS = 5_000;
/** All together look no more often than so: 3,000 at five seconds each took two thirds of a server from its workers. */
const LOOKS_PER_SECOND = 100;
const LOOK_MS = 100;
const RETRY_MIN_MS = 50;
const RETRY_MAX_MS = 2_000;
const MAX_VERDICTS = 1_000;

export interface FollowerHooks {
  /** The server refused a poll for its own limits (gRPC code 8). */
  throttled(workflowId: string): void;
  /** How many executions this process follows. */
  followed(): number;
}

export class Follower implements Poller {
  lastNews = Date.now();
  /** Set when nothing more will come: the log's end, or an error that waiting does not mend. */
  done: { readonly error?: unknown } | undefined;
  /** It was stopped: nothing more will be learned here, though the log may go on. */
  stopped = false;
  /** Verdicts on answers, by the `call` that sent them. */
  readonly verdicts = new Map<string, Verdict>();
  private window: HoldfastEvent[] = [];
  private windowFrom = 0;
  private fold: RunFold | undefined;
  private runId: string | undefined;
  private token: Uint8Array | undefined;
  /** What the run held when it was first read has been read. */
  caughtUp = false;
  /** How long the server took for a page that was there already, in milliseconds. */
  private latency = 0;
  private readonly waiters = new Set<() => void>();
  private readonly stopping = new AbortController();
  private poll: AbortController | undefined;

  constructor(
    readonly workflowId: string,
    private readonly reader: LogReader,
    private readonly polls: LongPolls,
    private readonly hooks: FollowerHooks,
  ) {
    void this.run();
  }

  /** The fold so far; undefined before the first page came. */
  get current(): RunFold | undefined {
    return this.fold;
  }

  /** The last sequence, once all was read that was there at first. */
  get last(): number | undefined {
    return this.caughtUp ? this.windowFrom + this.window.length : undefined;
  }

  /** Events after `cursor`, or `behind` when some of them left the window: those up to `behind` are to be read. */
  since(cursor: number): { readonly events: readonly HoldfastEvent[] } | { readonly behind: number } | undefined {
    if (this.fold === undefined) return undefined;
    if (cursor < this.windowFrom) return { behind: this.windowFrom };
    return { events: this.window.slice(cursor - this.windowFrom) };
  }

  /** Resolves at the next change of anything here, or when `signal` aborts. */
  changed(signal: AbortSignal): Promise<void> {
    if (this.done !== undefined || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const finish = (): void => {
        this.waiters.delete(finish);
        signal.removeEventListener('abort', finish);
        resolve();
      };
      this.waiters.add(finish);
      signal.addEventListener('abort', finish, { once: true });
    });
  }

  yieldPoll(): void {
    this.poll?.abort();
  }

  stop(): void {
    this.stopped = true;
    this.done ??= {};
    this.polls.release(this);
    this.stopping.abort();
    this.poll?.abort();
    this.wake();
  }

  private wake(): void {
    for (const waiter of [...this.waiters]) waiter();
  }

  private async run(): Promise<void> {
    let failures = 0;
    let turn = TURN_MIN_MS;
    while (!this.stopping.signal.aborted && this.done === undefined) {
      try {
        const waits = !this.caughtUp || this.polls.hold(this);
        if (!waits) {
          const share = (this.hooks.followed() * 1_000) / LOOKS_PER_SECOND;
          await this.pause(Math.max(turn, share) * (0.75 + Math.random() / 2));
          turn = Math.min(TURN_MAX_MS, turn * 1.5);
          if (this.stopping.signal.aborted) return;
        }
        const page = await this.next(waits);
        failures = 0;
        if (page === undefined) continue;
        if (page.items.length > 0) {
          turn = TURN_MIN_MS;
          this.lastNews = Date.now();
        }
        this.take(page);
      } catch (error) {
        if (this.stopping.signal.aborted) return;
        await this.recover(error, failures++);
      }
    }
  }

  /** One page; undefined when the poll was given up without news. */
  private async next(waits: boolean): Promise<HistoryPage | undefined> {
    const poll = new AbortController();
    this.poll = poll;
    const timer = waits ? undefined : setTimeout(() => poll.abort(), LOOK_MS + 2 * this.latency);
    const asked = performance.now();
    try {
      const page = await this.reader.history.page({
        workflowId: this.workflowId,
        wait: true,
        signal: poll.signal,
        ...(this.runId === undefined ? {} : { runId: this.runId }),
        ...(this.token === undefined ? {} : { token: this.token }),
      });
      if (!this.caughtUp) this.latency = performance.now() - asked;
      return page;
    } catch (error) {
      if (poll.signal.aborted) return undefined;
      throw error;
    } finally {
      clearTimeout(timer);
      this.poll = undefined;
    }
  }

  private take(page: HistoryPage): void {
    let events = 0;
    let redirected = false;
    for (const item of page.items) {
      if (item.kind === 'continued' || item.kind === 'reset') {
        this.runId = item.runId;
        this.token = undefined;
        this.caughtUp = false;
        redirected = true;
        break;
      }
      events += this.takeItem(item);
    }
    if (!redirected) {
      this.token = page.token;
      this.caughtUp = true;
      if (this.fold !== undefined && isEnded(this.fold.state)) this.done = {};
    }
    if (this.done !== undefined) this.polls.release(this);
    if (events > 0 || this.done !== undefined || page.items.length > 0) this.wake();
  }

  private takeItem(item: HistoryItem): number {
    if (item.kind === 'start') {
      const known = this.windowFrom + this.window.length;
      this.fold = startFold(item);
      const first = this.fold.begin().events;
      // After a rollover the carry holds what we have; read again from the start, only what is new is added.
      if (known <= this.fold.from) {
        this.window = [];
        this.windowFrom = this.fold.from;
      }
      return this.add(first);
    }
    if (this.fold === undefined) return 0;
    const folded = this.fold.apply(item);
    const call = folded.verdict?.call;
    if (call !== undefined && folded.verdict !== undefined) this.remember(call, folded.verdict.verdict);
    return this.add(folded.events);
  }

  private add(events: readonly HoldfastEvent[]): number {
    const last = this.windowFrom + this.window.length;
    const fresh = events.filter((event) => event.sequence > last);
    this.window.push(...fresh);
    return fresh.length;
  }

  private remember(call: string, verdict: Verdict): void {
    this.verdicts.set(call, verdict);
    if (this.verdicts.size <= MAX_VERDICTS) return;
    const oldest = this.verdicts.keys().next().value;
    if (oldest !== undefined) this.verdicts.delete(oldest);
  }

  /** Waits out what passes; ends on what does not. */
  private async recover(error: unknown, failures: number): Promise<void> {
    const code = grpcCode(error);
    if (code === GRPC.INVALID_ARGUMENT && this.token !== undefined) {
      // A token that the server no longer takes: fold this run again, and add only what is new.
      this.token = undefined;
      this.caughtUp = false;
      return;
    }
    const lasting = code === undefined || code === GRPC.NOT_FOUND || code === GRPC.INVALID_ARGUMENT;
    if (lasting || code === GRPC.PERMISSION_DENIED || code === GRPC.UNAUTHENTICATED) {
      this.done = { error };
      this.polls.release(this);
      this.wake();
      return;
    }
    if (code === GRPC.RESOURCE_EXHAUSTED) this.hooks.throttled(this.workflowId);
    const factor = code === GRPC.RESOURCE_EXHAUSTED ? 4 : 1;
    await this.pause(Math.min(RETRY_MAX_MS, RETRY_MIN_MS * factor * 2 ** Math.min(failures, 10)));
  }

  private async pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.stopping.signal }).catch(() => undefined);
  }
}
