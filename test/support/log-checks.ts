/** What holds of every finished log, whatever happened to those who made it. */
import { expect } from 'vitest';
import { type HoldfastEvent, isTerminalEvent } from '../../protocol/event.js';

/** Contiguous from `from` on, each event once, one terminal event, and that the last. */
export function expectWhole(events: readonly HoldfastEvent[], from = 1): void {
  expect(events.map((event) => event.sequence)).toEqual(events.map((_, i) => i + from));
  expect(events.filter(isTerminalEvent)).toEqual(events.slice(-1));
  expect(events.filter((event) => event.type === 'run.started').length).toBeLessThanOrEqual(1);
}

type Recovered = { readonly name: string; readonly attempt: number; readonly resumedFrom: number };

/** The data of each `runtime.recovered`, in order. */
export function recoveries(events: readonly HoldfastEvent[]): Recovered[] {
  return events.flatMap((event) =>
    event.type === 'provider.event' && event.data.name === 'runtime.recovered'
      ? [event.data as unknown as Recovered]
      : [],
  );
}

/** The text that a reader is left with who drops what each recovery says again. */
export function keptText(events: readonly HoldfastEvent[]): string {
  let kept: { sequence: number; text: string }[] = [];
  for (const event of events) {
    if (event.type === 'output.text.delta') kept.push({ sequence: event.sequence, text: event.data.text });
    const [recovered] = recoveries([event]);
    if (recovered !== undefined) kept = kept.filter(({ sequence }) => sequence <= recovered.resumedFrom);
  }
  return kept.map(({ text }) => text).join('');
}
