/** One long stream at 1,000 events a second: does its subscriber keep up, and what is left to replay. */
import { emittedAt } from '../holdfast/provider.js';
import type { Bench } from '../support/bench.js';
import { now, type Point } from '../support/stats.js';

export const PER_SECOND = 1_000;

export interface LongLog {
  readonly id: string;
  /** Of each event: how many came before it, and its delay in milliseconds. */
  readonly delays: readonly Point[];
  /** Milliseconds from the first emission to the last, and from there to its arrival. */
  readonly emitting: number;
}

const logs = new WeakMap<Bench, Promise<LongLog>>();

/** The bench's one long log; the first measure that needs it makes it. */
export function longLog(bench: Bench): Promise<LongLog> {
  const existing = logs.get(bench);
  if (existing !== undefined) return existing;
  const made = stream(bench, bench.scale.longLog);
  logs.set(bench, made);
  return made;
}

async function stream(bench: Bench, events: number): Promise<LongLog> {
  const id = await bench.submit({ kind: 'paced', events, perSecond: PER_SECOND });
  const delays: Point[] = [];
  let first = Number.NaN;
  let last = Number.NaN;
  for await (const event of bench.client.events(id)) {
    if (event.type !== 'output.text.delta') continue;
    const { at } = emittedAt(event.data.text);
    if (delays.length === 0) first = at;
    last = at;
    delays.push({ x: delays.length, y: now() - at });
  }
  await bench.handle(id).result();
  return { id, delays, emitting: last - first };
}
