/**
 * The agent's standard input and output as the object stream that the SDK connects to. What the SDK should not see is
 * taken out on the way: noise, answers to nothing, and the session updates. Those are read here and not by a handler
 * of the SDK, since it drops kinds that it does not know and strips keys that it does not know; and so that each update
 * is in the log before anything that came after it is looked at.
 */
import type { AnyMessage, Stream } from '@agentclientprotocol/sdk';
import { LineSplitter } from '../process/lines.js';
import type { RunningProcess } from '../process/spawn.js';
import { settledWithin, until } from '../process/wait.js';
import { isObject, readLine } from './message.js';

/** Requests of the agent that may wait for an answer at once. */
const MAX_OPEN_REQUESTS = 10_000;
/** Milliseconds for their number to go down again. */
const OPEN_REQUESTS_MS = 5000;

export interface Noise {
  lines: number;
  bytes: number;
}

export interface WireOptions {
  /** Bytes of one message, at most. */
  readonly maxMessageBytes: number;
  /** Takes the params of a `session/update`; the next message waits for it. A rejection ends the stream with it. */
  onUpdate(params: Record<string, unknown>): Promise<void>;
  /** Called for each line that is no message, with its beginning. */
  onNoise(sample: string): void;
}

export class AgentWire {
  readonly stream: Stream;
  readonly noise: Noise = { lines: 0, bytes: 0 };
  /** Resolves when standard output has ended and all of it is handed on, or reading failed. Never rejects. */
  readonly done: Promise<void>;
  readonly #process: RunningProcess;
  readonly #options: WireOptions;
  /** Ids of our requests that have no answer yet, and of the agent's that got none from us. */
  readonly #asked = new Set<string>();
  readonly #owed = new Set<string>();
  #failure: Error | undefined;
  #finished = false;
  /** A line is being handed on right now, perhaps under back-pressure. */
  #busy = false;
  #lastRead = performance.now();

  constructor(process: RunningProcess, options: WireOptions) {
    this.#process = process;
    this.#options = options;
    let controller: ReadableStreamDefaultController<AnyMessage> | undefined;
    const readable = new ReadableStream<AnyMessage>({
      start: (started) => {
        controller = started;
      },
    });
    const writable = new WritableStream<AnyMessage>({ write: (message) => this.#write(message) });
    this.stream = { readable, writable };
    this.done = this.#read((message) => enqueue(controller, message))
      .then(
        () => close(controller),
        (error: unknown) => this.#fail(controller, error),
      )
      .then(() => {
        this.#finished = true;
      });
  }

  /** Why reading ended before the agent's output did. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /**
   * Resolves with true when all output is handed on, with false when none has come for `quietMs` milliseconds while
   * nothing was waiting to be handed on: somebody holds the pipe and says nothing.
   */
  async drained(quietMs: number): Promise<boolean> {
    const since = performance.now();
    const silent = () => !this.#busy && performance.now() - Math.max(since, this.#lastRead) >= quietMs;
    while (!this.#finished && !silent()) await settledWithin(this.done, Math.min(quietMs, 50));
    return this.#finished;
  }

  /** Gives up on the rest of the output: something that we cannot end holds the pipe. */
  abandon(): void {
    this.#process.stdout.destroy();
  }

  #fail(controller: ReadableStreamDefaultController<AnyMessage> | undefined, error: unknown): void {
    const failure = error instanceof Error ? error : new Error(String(error));
    // Destroyed while it was read: `abandon`, which is an end like any other.
    if ((failure as { code?: string }).code === 'ERR_STREAM_PREMATURE_CLOSE') return close(controller);
    this.#failure = failure;
    this.#process.stdout.destroy();
    try {
      controller?.error(failure);
    } catch {
      // The SDK has let go of it already.
    }
  }

  async #read(forward: (message: AnyMessage) => void): Promise<void> {
    if (this.#process.pid === undefined) return;
    const lines = new LineSplitter(this.#options.maxMessageBytes);
    for await (const chunk of this.#process.stdout as AsyncIterable<Buffer>) {
      this.#busy = true;
      for (const line of lines.push(chunk)) await this.#take(line, forward);
      this.#busy = false;
      this.#lastRead = performance.now();
    }
    const rest = lines.end();
    if (rest !== undefined) await this.#take(rest, forward);
  }

  async #take(bytes: Buffer, forward: (message: AnyMessage) => void): Promise<void> {
    const line = readLine(bytes);
    if (line.kind === 'empty') return;
    if (line.kind === 'noise') return this.#ignore(bytes, line.sample);
    const { message } = line;
    if (!('method' in message)) {
      // A second answer, or one to nothing.
      if (!this.#asked.delete(JSON.stringify(message.id))) return this.#ignore(bytes, `answer to ${message.id}`);
    } else if ('id' in message) {
      this.#owed.add(JSON.stringify(message.id));
      // A burst is answered while we wait here; an agent that never reads its answers is not waited for.
      const room = () => this.#owed.size <= MAX_OPEN_REQUESTS;
      if (!room() && !(await until(room, OPEN_REQUESTS_MS, 10)))
        throw new Error(`more than ${MAX_OPEN_REQUESTS} requests at once that have no answer yet`);
    } else if (message.method === 'session/update') {
      if (!isObject(message.params)) return this.#ignore(bytes, 'session/update without params');
      return this.#options.onUpdate(message.params);
    }
    forward(message);
  }

  #ignore(bytes: Buffer, sample: string): void {
    this.noise.lines += 1;
    this.noise.bytes += bytes.length;
    this.#options.onNoise(sample);
  }

  async #write(message: AnyMessage): Promise<void> {
    if ('id' in message) {
      const id = JSON.stringify(message.id);
      if ('method' in message) this.#asked.add(id);
      else this.#owed.delete(id);
    }
    await this.#process.write(`${JSON.stringify(message)}\n`);
  }
}

function enqueue(controller: ReadableStreamDefaultController<AnyMessage> | undefined, message: AnyMessage): void {
  try {
    controller?.enqueue(message);
  } catch {
    // The SDK closed its side: nobody waits for messages any more, only updates still count.
  }
}

function close(controller: ReadableStreamDefaultController<AnyMessage> | undefined): void {
  try {
    controller?.close();
  } catch {
    // Closed by the SDK.
  }
}
