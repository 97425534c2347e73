/** Reading a command's standard output, in bounded memory and no faster than the log takes it. */
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { LineSplitter, LineTooLongError } from '../process/lines.js';
import { settledWithin } from '../process/wait.js';
import { type CommandEvent, readLine } from './events.js';
import { CommandFailure } from './failure.js';

export interface Sink {
  /** The next piece waits for each of these. A rejection ends the reading with it. */
  text(text: string): Promise<void>;
  event(event: CommandEvent): Promise<void>;
  noise(sample: string, why: string, bytes: number): void;
}

export interface Reading {
  /** Resolves when all of it is handed on. Rejects with a `CommandFailure`, or with what the sink rejected with. */
  readonly done: Promise<void>;
  /** True when all is handed on; false when nothing came for `quietMs` milliseconds. Never rejects. */
  drained(quietMs: number): Promise<boolean>;
}

export function readOutput(
  stdout: Readable,
  kind: 'text' | 'ndjson',
  limits: { readonly maxLineBytes: number; readonly maxOutputBytes: number },
  sink: Sink,
): Reading {
  let busy = false;
  let lastRead = performance.now();
  const take = kind === 'text' ? textTaker(limits.maxOutputBytes, sink) : lineTaker(limits.maxLineBytes, sink);
  const read = async (): Promise<void> => {
    try {
      for await (const chunk of stdout as AsyncIterable<Buffer>) {
        busy = true;
        await take(chunk);
        busy = false;
        lastRead = performance.now();
      }
      await take(undefined);
    } catch (error) {
      // Destroyed by us while it was read: an end like any other.
      if ((error as { code?: string }).code === 'ERR_STREAM_PREMATURE_CLOSE') return take(undefined);
      throw error instanceof LineTooLongError ? new CommandFailure(`sent ${error.message}`) : error;
    } finally {
      busy = false;
      stdout.destroy();
    }
  };
  const done = read();
  done.catch(() => {});
  return {
    done,
    async drained(quietMs) {
      const since = performance.now();
      for (;;) {
        if (await settledWithin(done, Math.min(quietMs, 50))) return true;
        if (!busy && performance.now() - Math.max(since, lastRead) >= quietMs) return false;
      }
    },
  };
}

type Taker = (chunk: Buffer | undefined) => Promise<void>;

function textTaker(limit: number, sink: Sink): Taker {
  const decoder = new StringDecoder('utf8');
  let bytes = 0;
  return async (chunk) => {
    bytes += chunk?.length ?? 0;
    if (bytes > limit) throw new CommandFailure(`wrote more than ${limit} bytes (maxOutputBytes)`);
    const text = chunk === undefined ? decoder.end() : decoder.write(chunk);
    if (text !== '') await sink.text(text);
  };
}

function lineTaker(limit: number, sink: Sink): Taker {
  const lines = new LineSplitter(limit);
  const take = async (bytes: Buffer): Promise<void> => {
    const line = readLine(bytes);
    if (line.kind === 'event') await sink.event(line.event);
    else if (line.kind === 'noise') sink.noise(line.sample, line.why, bytes.length);
  };
  return async (chunk) => {
    if (chunk !== undefined) {
      for (const line of lines.push(chunk)) await take(line);
      return;
    }
    const rest = lines.end();
    if (rest !== undefined) await take(rest);
  };
}
