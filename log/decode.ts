/** Payloads as they stand in history, decoded without ever throwing: what cannot be read becomes `UNDECODABLE`. */
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

async function decodeOne(
  codecs: readonly PayloadCodec[],
  payload: Payload,
  context: WorkflowSerializationContext,
): Promise<unknown> {
  let decoded: Payload | undefined = payload;
  try {
    for (const codec of [...codecs].reverse()) {
      if (decoded !== undefined) [decoded] = await codec.decode([decoded], context);
    }
  } catch {
    return UNDECODABLE;
  }
  return decoded === undefined ? UNDECODABLE : payloadConverter.fromPayload(decoded);
}

/** The one error for a reader that lacks the codec, or its key, with which `what` was written. */
export function undecodable(what: string): HoldfastError {
  return new HoldfastError(
    'RUNTIME_UNAVAILABLE',
    `${what} cannot be decoded here: configure the same payload codecs (dataConverter) as its workers and callers`,
  );
}
