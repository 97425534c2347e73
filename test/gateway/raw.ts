/** HTTP and server-sent events over a bare socket, read as a picky client would: bytes, chunks, lines, frames. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import type { HoldfastEvent } from '../../protocol/event.js';

/** Decodes `Transfer-Encoding: chunked`, however the bytes are cut. */
class Chunks {
  done = false;
  private rest = Buffer.alloc(0);

  push(bytes: Buffer): Buffer {
    this.rest = Buffer.concat([this.rest, bytes]);
    const out: Buffer[] = [];
    for (;;) {
      const line = this.rest.indexOf('\r\n');
      if (line < 0 || this.done) break;
      const size = Number.parseInt(this.rest.subarray(0, line).toString('latin1'), 16);
      if (this.rest.length < line + 2 + size + 2) break;
      out.push(this.rest.subarray(line + 2, line + 2 + size));
      this.rest = this.rest.subarray(line + 2 + size + 2);
      if (size === 0) this.done = true;
    }
    return Buffer.concat(out);
  }
}

export interface Frame {
  readonly id?: string;
  readonly event?: string;
  readonly data: string;
}

/** The event stream as the HTML standard reads it: lines end with LF, CR or CRLF. */
export class FrameParser {
  readonly frames: Frame[] = [];
  readonly retries: number[] = [];
  comments = 0;
  private readonly decoder = new TextDecoder('utf-8', { fatal: true });
  private text = '';
  private fields: { id?: string; event?: string; data: string[] } = { data: [] };

  push(bytes: Uint8Array): void {
    this.text += this.decoder.decode(bytes, { stream: true });
    for (;;) {
      const end = /\r\n|\n|\r(?=[^\n])/.exec(this.text);
      if (end === null) return;
      this.line(this.text.slice(0, end.index));
      this.text = this.text.slice(end.index + end[0].length);
    }
  }

  private line(line: string): void {
    if (line === '') {
      const { id, event, data } = this.fields;
      if (data.length > 0)
        this.frames.push({
          ...(id === undefined ? {} : { id }),
          ...(event === undefined ? {} : { event }),
          data: data.join('\n'),
        });
      this.fields = { data: [] };
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === '') this.comments += 1;
    else if (field === 'data') this.fields.data.push(value);
    else if (field === 'id') this.fields.id = value;
    else if (field === 'event') this.fields.event = value;
    else if (field === 'retry') this.retries.push(Number(value));
    else throw new Error(`an unknown field in the stream: ${JSON.stringify(line.slice(0, 100))}`);
  }
}

/** One request over a socket of its own. */
export class RawStream {
  readonly parser = new FrameParser();
  status = 0;
  headers = '';
  /** The answer is whole: its last chunk has come. */
  complete = false;
  bytes: Buffer = Buffer.alloc(0);
  private head: Buffer | undefined = Buffer.alloc(0);
  private readonly chunks = new Chunks();
  private waiting: (() => void)[] = [];

  private constructor(
    readonly socket: Socket,
    private readonly keep: boolean,
  ) {
    socket.on('data', (bytes: Buffer) => this.take(bytes));
    socket.on('close', () => this.wake());
    socket.on('error', () => undefined);
  }

  /** `keep`: also keep the body as it came. */
  static async open(
    url: string,
    path: string,
    options: { headers?: Record<string, string>; method?: string; keep?: boolean; rcvbuf?: boolean } = {},
  ): Promise<RawStream> {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port) });
    await once(socket, 'connect');
    const stream = new RawStream(socket, options.keep === true);
    const headers = { Host: `${hostname}:${port}`, Accept: 'text/event-stream', ...options.headers };
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
    socket.write(`${options.method ?? 'GET'} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`);
    return stream;
  }

  get events(): HoldfastEvent[] {
    return this.parser.frames.map((frame) => JSON.parse(frame.data) as HoldfastEvent);
  }

  get sequences(): number[] {
    return this.parser.frames.map((frame) => Number(frame.id));
  }

  async until(fits: () => boolean, timeoutMs = 20_000): Promise<void> {
    const late = Date.now() + timeoutMs;
    while (!fits()) {
      if (this.socket.destroyed || Date.now() > late)
        throw new Error(
          `gave up: status ${this.status}, ${this.parser.frames.length} frames, complete ${this.complete}`,
        );
      const left = late - Date.now();
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, left);
        this.waiting.push(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  /** Waits for the whole answer and closes the socket. */
  async finish(timeoutMs?: number): Promise<this> {
    await this.until(() => this.complete, timeoutMs);
    this.socket.destroy();
    return this;
  }

  private take(bytes: Buffer): void {
    let body = bytes;
    if (this.head !== undefined) {
      this.head = Buffer.concat([this.head, bytes]);
      const end = this.head.indexOf('\r\n\r\n');
      if (end < 0) return;
      this.headers = this.head.subarray(0, end).toString('latin1');
      this.status = Number(this.headers.split(' ')[1]);
      body = this.head.subarray(end + 4);
      this.head = undefined;
    }
    if (/transfer-encoding: chunked/i.test(this.headers)) {
      const plain = this.chunks.push(body);
      if (this.keep) this.bytes = Buffer.concat([this.bytes, plain]);
      if (this.status === 200) this.parser.push(plain);
      this.complete = this.chunks.done;
    } else {
      this.bytes = Buffer.concat([this.bytes, body]);
      const length = Number(/content-length: (\d+)/i.exec(this.headers)?.[1] ?? 0);
      this.complete = this.bytes.length >= length;
    }
    this.wake();
  }

  private wake(): void {
    const { waiting } = this;
    this.waiting = [];
    for (const wake of waiting) wake();
  }
}

/** 1 … last. */
export function upTo(last: number, from = 1): number[] {
  return Array.from({ length: last - from + 1 }, (_, index) => index + from);
}
