/**
 * Server-sent events as bytes. One event is one frame, whatever its text holds: `JSON.stringify` leaves no line end in
 * `data`, and what only some readers take for one (U+0085, U+2028, U+2029) is escaped too. Only log events carry `id`.
 */
import type { HoldfastEvent } from '../protocol/event.js';

const encoder = new TextEncoder();
const UNUSUAL_LINE_ENDS = /[\u0085\u2028\u2029]/g;

/** Fills the buffers of proxies that hold back small answers. */
const PADDING = ' '.repeat(2048);

/** When a client should come back after a stream that was cut, in milliseconds. */
export const RETRY_MS = 2_000;
/** After the end of a log: nothing more will ever come. */
export const NEVER_RETRY_MS = 3_600_000;

export function eventFrame(event: HoldfastEvent): Uint8Array {
  const data = JSON.stringify(event).replace(UNUSUAL_LINE_ENDS, escaped);
  return encoder.encode(`id: ${event.sequence}\nevent: ${event.type}\ndata: ${data}\n\n`);
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** A comment that says that the stream lives. Readers skip it. */
export function commentFrame(text: string): Uint8Array {
  return encoder.encode(`: ${text}${PADDING}\n\n`);
}

/** Tells a client how long to wait before it connects again. */
export function retryFrame(ms: number): Uint8Array {
  return encoder.encode(`retry: ${ms}\n\n`);
}
