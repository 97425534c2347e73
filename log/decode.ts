/** Payloads as they stand in history, decoded without ever throwing: what cannot be read becomes `UNDECODABLE`. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Payload, PayloadCodec, WorkflowSerializationContext } from '@temporalio/common';
import { HoldfastError } from '../protocol/errors.js';
import { UNDECODABLE } from '../protocol/log/inputs.js';
import { payloadConverter } from '../workflows/payload-converter.js';

/** `context` says whose payloads they are: a codec may have bound them to their workflow when it encoded them. */
export type Decode = (
  payloads: readonly Payload[] | null | undefined,
  context: WorkflowSerializationContext,
) => Promise<unknown[]>;

/** Decodes through `codecs` (last first) and then as JSON. */
export function decoder(codecs: readonly PayloadCodec[] = []): Decode {
  return async (payloads, context) => {
    if (!payloads || payloads.length === 0) return [];
    return await Promise.all(payloads.map((payload) => decodeOne(codecs, payload, context)));
  };
}

/** Waits before a codec that threw is asked again for the same payload, in milliseconds. */
const ASK_AGAIN_MS = [50, 250];
/**
 * A codec that fails is waited for during so long, counted from its first failure. What can never be decoded (there may be
 * a thousand in a history) must not make a workflow task or a page late. A failure after `NEW_TROUBLE_MS` counts as a first
 * one again, and so does one after a wait that helped.
 */
const PATIENCE_MS = 2_000;
const NEW_TROUBLE_MS = 10_000;

/** When each codec had its first failure. */
const troubles = new WeakMap<PayloadCodec, number>();

function isWaitedFor(codec: PayloadCodec): boolean {
  const now = performance.now();
  const since = troubles.get(codec);
  if (since !== undefined && now - since < NEW_TROUBLE_MS) return now - since < PATIENCE_MS;
  troubles.set(codec, now);
  return true;
}

/**
 * One payload through one codec; undefined when it cannot decode it. What is not decoded is dropped for good, so a codec
 * whose key service stumbles is asked up to three times.
 */
export async function decodeThrough(
  codec: PayloadCodec,
  payload: Payload,
  context: Parameters<PayloadCodec['decode']>[1],
): Promise<Payload | undefined> {
  for (let tries = 0; ; tries++) {
    try {
      const [decoded] = await codec.decode([payload], context);
      // Waiting helped, so it is worth it the next time too.
      if (tries > 0) troubles.delete(codec);
      return decoded;
    } catch {
      const wait = ASK_AGAIN_MS[tries];
      if (wait === undefined || !isWaitedFor(codec)) return undefined;
      await delay(wait);
    }
  }
}

async function decodeOne(
  codecs: readonly PayloadCodec[],
  payload: Payload,
  context: WorkflowSerializationContext,
): Promise<unknown> {
  let decoded: Payload | undefined = payload;
  for (const codec of [...codecs].reverse())
    if (decoded !== undefined) decoded = await decodeThrough(codec, decoded, context);
  return decoded === undefined ? UNDECODABLE : payloadConverter.fromPayload(decoded);
}

/** The one error for a reader that lacks the codec, or its key, with which `what` was written. */
export function undecodable(what: string): HoldfastError {
  return new HoldfastError(
    'RUNTIME_UNAVAILABLE',
    `${what} cannot be decoded here: configure the same payload codecs (dataConverter) as its workers and callers`,
  );
}
