/**
 * An execution's log at the other end, from a cursor to its end: over as many connections as it takes, each event once
 * and in order, whatever is cut, repeated or restarted in between.
 */
import { createParser } from 'eventsource-parser';
import { isTerminalEvent } from '../../protocol/event.js';
import { type Remote, RemoteProblem } from './http.js';
import { type RemoteEvent, readEvent } from './wire.js';

/** The largest frame; the contract's own are below 400 KiB. */
const MAX_FRAME = 4 * 1024 * 1024;
/** How often the other end may leave out the same events. */
const MAX_GAPS = 5;

/**
 * Events after the sequence `after`, those of one read together; ends after the terminal event.
 *
 * @throws RemoteProblem for what will not get better; HoldfastError `RUNTIME_UNAVAILABLE`; the signal's reason
 */
export async function* follow(
  remote: Remote,
  executionId: string,
  after: number,
  signal: AbortSignal,
): AsyncGenerator<readonly RemoteEvent[]> {
  let cursor = after;
  let failures = 0;
  let gaps = 0;
  for (;;) {
    signal.throwIfAborted();
    const connection = new Connection(remote, signal);
    let problem: Error = new RemoteProblem('the stream of events ended before the log did', true);
    try {
      for await (const received of connection.read(`/v1/executions/${executionId}/events?after=${cursor}`)) {
        const events: RemoteEvent[] = [];
        for (const event of received) {
          if (event.sequence <= cursor) continue;
          if (event.sequence > cursor + 1) {
            if (++gaps > MAX_GAPS)
              throw new RemoteProblem(`the remote log goes from ${cursor} to ${event.sequence}`, false);
            connection.close();
            break;
          }
          cursor = event.sequence;
          events.push(event);
        }
        if (events.length === 0) continue;
        failures = 0;
        gaps = 0;
        yield events;
        if (events.some(isTerminalEvent)) return;
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof RemoteProblem && error.retryable)) throw error;
      problem = error;
    } finally {
      connection.close();
    }
    await remote.pause(failures++, problem, signal, connection.retryMs);
  }
}

class Connection {
  /** What the other end asked for, when it closed the stream in order. */
  retryMs = 0;
  private readonly own = new AbortController();

  constructor(
    private readonly remote: Remote,
    private readonly signal: AbortSignal,
  ) {}

  close(): void {
    this.own.abort();
  }

  async *read(path: string): AsyncGenerator<readonly RemoteEvent[]> {
    const body = await this.remote.open(path, AbortSignal.any([this.signal, this.own.signal]));
    if (body === undefined) return;
    let events: RemoteEvent[] = [];
    let retryMs = 0;
    let tooLarge = false;
    const parser = createParser({
      maxBufferSize: MAX_FRAME,
      // Some send frames of their own that only show that they live.
      onEvent: ({ data, id, event }) => {
        if (id !== undefined || event?.includes('.')) events.push(readEvent(data));
      },
      onRetry: (ms) => {
        retryMs = ms;
      },
      onError: ({ type }) => {
        tooLarge ||= type === 'max-buffer-size-exceeded';
      },
    });
    const decoder = new TextDecoder();
    const reader = body.getReader();
    try {
      for (;;) {
        const { done, value } = await this.next(reader);
        if (done) break;
        this.remote.heard();
        parser.feed(decoder.decode(value, { stream: true }));
        if (tooLarge) throw new RemoteProblem(`an event takes more than ${MAX_FRAME} bytes`, false);
        if (events.length === 0) continue;
        const received = events;
        events = [];
        yield received;
        if (this.own.signal.aborted) return;
      }
      this.retryMs = retryMs;
    } finally {
      await reader.cancel().catch(() => undefined);
    }
  }

  /** The next bytes. A connection whose other side is gone without a word would wait for ever. */
  private async next(reader: ReadableStreamDefaultReader<Uint8Array>) {
    let quiet = false;
    const late = setTimeout(() => {
      quiet = true;
      this.close();
    }, this.remote.options.quietMs);
    try {
      return await reader.read();
    } catch (error) {
      const why = quiet ? `nothing came for ${this.remote.options.quietMs} ms` : this.remote.said(error);
      throw new RemoteProblem(`the stream of events was cut: ${why}`, true);
    } finally {
      clearTimeout(late);
    }
  }
}
