/**
 * Open event streams. Each pulls its next event only when its client took the last one, so what a slow reader costs is
 * one frame and the socket's own buffer. One clock for all of them sends the comments and ends who stands still.
 */
import type { HoldfastEvent } from '../protocol/event.js';
import { isTerminalEvent } from '../protocol/event.js';
import { commentFrame, eventFrame, NEVER_RETRY_MS, RETRY_MS, retryFrame } from './frames.js';
import { Refusal } from './problem.js';

/** Why a stream ended. `complete`: after the log's end. Everything else has the client come back with its cursor. */
export type StreamEnd = 'complete' | 'gone' | 'slow' | 'expired' | 'closing' | 'error';

/** How long a reader that was sent away may take to read what it was given, in milliseconds. */
const LINGER_MS = 30_000;

export interface StreamSettings {
  /** A comment after so long without an event, in milliseconds. */
  readonly heartbeatMs: number;
  /** A client that takes nothing for so long gets its end, in milliseconds. */
  readonly stallMs: number;
  /** Streams open at once. */
  readonly maxStreams: number;
}

export interface StreamSource {
  readonly events: AsyncIterableIterator<HoldfastEvent>;
  /** There is nothing to send: the log is over. */
  readonly isOver: boolean;
  /** Until when its reader may read, in milliseconds since 1970: ended within a second then, and nothing sent after it. */
  readonly expiresAt?: number | undefined;
  /** Called once, when it ends. */
  readonly ended: (end: StreamEnd, sent: number, error?: unknown) => void;
  /** Called when a slow reader did not even take its end. */
  readonly destroy: () => void;
}

export class Streams {
  private readonly open = new Set<EventStream>();
  private clock: NodeJS.Timeout | undefined;
  private closing = false;
  /** About to be opened: so many requests at once must not slip through together. */
  private expected = 0;

  constructor(private readonly settings: StreamSettings) {}

  get size(): number {
    return this.open.size;
  }

  /** Runs `open`, which starts a stream or fails; refuses one more than there may be. @throws Refusal `QUOTA_EXCEEDED` */
  async withRoom<T>(open: () => Promise<T>): Promise<T> {
    if (this.open.size + this.expected >= this.settings.maxStreams)
      throw new Refusal('QUOTA_EXCEEDED', `there are ${this.settings.maxStreams} open streams; try again later`, {
        'Retry-After': '5',
      });
    this.expected += 1;
    try {
      return await open();
    } finally {
      this.expected -= 1;
    }
  }

  /** The stream's body. It begins with a hint when to come back and a comment, so that headers and proxies move. */
  start(source: StreamSource): ReadableStream<Uint8Array> {
    const stream = new EventStream(source, this.settings, () => this.forget(stream));
    this.open.add(stream);
    this.clock ??= this.startClock();
    if (this.closing) stream.end('closing');
    return stream.body;
  }

  /** Ends all, and each that is started later: cleanly, without an invented event. */
  close(): void {
    this.closing = true;
    for (const stream of [...this.open]) stream.end('closing');
  }

  private startClock(): NodeJS.Timeout {
    const every = Math.max(5, Math.min(1_000, this.settings.heartbeatMs / 4, this.settings.stallMs / 4));
    const clock = setInterval(() => {
      const now = performance.now();
      for (const stream of [...this.open]) stream.tick(now);
    }, every);
    return clock.unref();
  }

  private forget(stream: EventStream): void {
    this.open.delete(stream);
    if (this.open.size > 0) return;
    clearInterval(this.clock);
    this.clock = undefined;
  }
}

class EventStream {
  readonly body: ReadableStream<Uint8Array>;
  private controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  private isEnded = false;
  private isReading = false;
  /** The client waits for more; else it has not yet taken what it was given. */
  private isWanted = false;
  private sent = 0;
  private lastMove = performance.now();

  constructor(
    private readonly source: StreamSource,
    private readonly settings: StreamSettings,
    private readonly forget: () => void,
  ) {
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.controller = controller;
          controller.enqueue(retryFrame(source.isOver ? NEVER_RETRY_MS : RETRY_MS));
          controller.enqueue(commentFrame('holdfast'));
        },
        pull: () => this.pull(),
        cancel: () => this.finish('gone'),
      },
      { highWaterMark: 0 },
    );
  }

  private pull(): void {
    this.isWanted = true;
    this.lastMove = performance.now();
    if (this.isReading || this.isEnded) return;
    this.isReading = true;
    this.source.events.next().then(
      (result) => this.take(result),
      (error) => this.end('error', error),
    );
  }

  private take(result: IteratorResult<HoldfastEvent>): void {
    this.isReading = false;
    if (this.isEnded) return;
    if (result.done === true) {
      // The iterator also ends without a terminal event: its client was closed.
      this.end(this.source.isOver ? 'complete' : 'closing');
      return;
    }
    if (this.isExpired) {
      this.end('expired');
      return;
    }
    this.sent += 1;
    this.give(eventFrame(result.value));
    if (isTerminalEvent(result.value)) this.end('complete');
  }

  private give(frame: Uint8Array): void {
    this.isWanted = false;
    this.lastMove = performance.now();
    this.controller?.enqueue(frame);
  }

  tick(now: number): void {
    const quiet = now - this.lastMove;
    if (this.isExpired) this.sendAway('expired');
    else if (this.isWanted && quiet >= this.settings.heartbeatMs) this.give(commentFrame('alive'));
    else if (!this.isWanted && quiet >= this.settings.stallMs) this.sendAway('slow');
  }

  private get isExpired(): boolean {
    return this.source.expiresAt !== undefined && Date.now() >= this.source.expiresAt;
  }

  private sendAway(end: StreamEnd): void {
    this.end(end);
    // It may not even take its end.
    setTimeout(this.source.destroy, LINGER_MS).unref();
  }

  /** Ends it cleanly: the client sees a whole answer, and comes back with its cursor unless the log is over. */
  end(end: StreamEnd, error?: unknown): void {
    if (this.isEnded) return;
    // Spread, so that those who are sent away together do not come back together.
    if (end !== 'complete') this.controller?.enqueue(retryFrame(Math.round(RETRY_MS * (0.5 + Math.random()))));
    this.controller?.close();
    this.finish(end, error);
  }

  private finish(end: StreamEnd, error?: unknown): void {
    if (this.isEnded) return;
    this.isEnded = true;
    this.forget();
    void this.source.events.return?.();
    this.source.ended(end, this.sent, error);
  }
}
