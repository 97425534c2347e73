/**
 * The batching event sink of one live provider. Items go to the execution by signal, in numbered batches that are sent
 * one after the other and repeated until the server has them; the reducer drops a repeated one.
 *
 * The first item after a pause is flushed at once; while a flush is under way or the interval has not passed, items
 * gather (25 ms at first, longer as a run grows: humans read at 100 ms). One batch costs four history events.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { HoldfastError } from '../protocol/errors.js';
import { jsonBytes } from '../protocol/json.js';
import { MAX_BATCH_BYTES } from '../protocol/limits.js';
import type { BatchItem } from '../protocol/log/inputs.js';

const MAX_BATCH_ITEMS = 1_000;
/** Past this much that the server does not have yet, `push` makes the provider wait. */
const HIGH_WATER_BYTES = MAX_BATCH_BYTES;
const HIGH_WATER_ITEMS = 2_000;

export interface SinkOptions {
  /** What one run takes: past this much nothing is sent until the run was handed over (`resetCounts`). */
  readonly perRun: { readonly batches: number; readonly bytes: number };
  /** Sends one batch and resolves when the server has it. Rejects only for good. */
  readonly send: (batch: number, items: readonly BatchItem[]) => Promise<void>;
  /** A batch can never be sent: the execution is closed, or the batch is refused. */
  readonly failed: (error: unknown) => void;
}

export class EventSink {
  /** What was sent, for the rollover. */
  batches = 0;
  bytes = 0;
  private batch = 0;
  private readonly queue: { item: BatchItem; bytes: number }[] = [];
  private queuedBytes = 0;
  private readonly waiters: { room: () => boolean; resolve: () => void }[] = [];
  private pushed = 0;
  private acknowledged = 0;
  private pumping = false;
  private urgent = false;
  private lastFlush = 0;
  private hurry = new AbortController();
  private closed = false;
  private handedOver: () => void = () => undefined;

  constructor(private readonly options: SinkOptions) {}

  /** Takes an item, in order. Resolves at once while there is room, else when there is some again. */
  push(item: BatchItem): Promise<void> {
    if (this.closed) return Promise.resolve();
    const bytes = jsonBytes(item);
    this.queue.push({ item, bytes });
    this.queuedBytes += bytes;
    this.pushed += 1;
    if (!this.pumping) void this.pump();
    return this.until(() => this.queuedBytes < HIGH_WATER_BYTES && this.queue.length < HIGH_WATER_ITEMS);
  }

  /** Sends what there is without waiting for the interval; resolves when the server has all pushed so far. */
  flush(): Promise<void> {
    const target = this.pushed;
    this.urgent = true;
    this.hurry.abort();
    return this.until(() => this.acknowledged >= target);
  }

  /** From here on nothing is sent any more; whoever waits goes on. */
  close(): void {
    this.closed = true;
    this.queue.length = 0;
    this.queuedBytes = 0;
    this.hurry.abort();
    this.handedOver();
    this.wake();
  }

  /** A new run began: counts for its rollover start anew. */
  resetCounts(): void {
    this.batches = 0;
    this.bytes = 0;
    this.handedOver();
  }

  private until(room: () => boolean): Promise<void> {
    if (this.closed || room()) return Promise.resolve();
    return new Promise((resolve) => this.waiters.push({ room, resolve }));
  }

  private wake(): void {
    for (let i = this.waiters.length - 1; i >= 0; i--) {
      const waiter = this.waiters[i];
      if (waiter === undefined || !(this.closed || waiter.room())) continue;
      this.waiters.splice(i, 1);
      waiter.resolve();
    }
  }

  private interval(): number {
    if (this.batches < 300) return 25;
    return this.batches < 600 ? 50 : 100;
  }

  /** A run that grows past all measure could not be replayed in time: what exceeds it waits for the next one. */
  private async room(): Promise<void> {
    const { batches, bytes } = this.options.perRun;
    while (!this.closed && (this.batches >= batches || this.bytes >= bytes))
      await new Promise<void>((resolve) => {
        this.handedOver = resolve;
      });
  }

  private async pump(): Promise<void> {
    this.pumping = true;
    try {
      while (this.queue.length > 0 && !this.closed) {
        await this.pace();
        await this.room();
        // What the provider emits in the same breath goes along: one signal instead of two.
        await new Promise((resolve) => setImmediate(resolve));
        if (this.closed) break;
        const items = this.takeBatch();
        this.lastFlush = Date.now();
        await this.options.send(this.batch, items);
        this.acknowledged += items.length;
        this.wake();
      }
    } catch (error) {
      this.close();
      this.options.failed(error);
    } finally {
      this.pumping = false;
    }
  }

  private async pace(): Promise<void> {
    const wait = this.lastFlush + this.interval() - Date.now();
    if (wait > 0 && !this.urgent && this.queuedBytes < HIGH_WATER_BYTES / 2) {
      this.hurry = new AbortController();
      await delay(wait, undefined, { signal: this.hurry.signal }).catch(() => undefined);
    }
    this.urgent = false;
  }

  private takeBatch(): BatchItem[] {
    const items: BatchItem[] = [];
    let bytes = 0;
    for (let next = this.queue[0]; next !== undefined && items.length < MAX_BATCH_ITEMS; next = this.queue[0]) {
      if (items.length > 0 && bytes + next.bytes > MAX_BATCH_BYTES) break;
      this.queue.shift();
      items.push(next.item);
      bytes += next.bytes;
    }
    this.queuedBytes -= bytes;
    this.batch += 1;
    this.batches += 1;
    this.bytes += bytes;
    return items;
  }
}

/** The error of a provider that sent more than the contract takes. */
export function overLimit(what: string, bytes: number, limit: number): HoldfastError {
  return new HoldfastError('PROVIDER_ERROR', `${what} takes ${bytes} bytes of JSON; at most ${limit} are taken`);
}
