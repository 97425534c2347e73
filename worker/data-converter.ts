/** What a caller's `dataConverter` becomes for a worker: codecs that never throw on a message. */
import type { DataConverter, Payload, PayloadCodec } from '@temporalio/common';
import { decodeThrough } from '../log/decode.js';
import { HoldfastError } from '../protocol/errors.js';

/** A payload of no known encoding: the workflows' converter reads it as undecodable, and the message is dropped. */
const UNDECODABLE_PAYLOAD: Payload = {
  metadata: { encoding: new TextEncoder().encode('holdfast/undecodable') },
  data: new Uint8Array(),
};

/**
 * A message that a codec cannot decode would fail every later workflow task, and queries and cancel with it. Each
 * payload is decoded by itself, so that one bad one harms no other, and a codec that stumbles is asked again.
 */
export function tolerant(codec: PayloadCodec): PayloadCodec {
  return {
    encode: (payloads, context) => codec.encode(payloads, context),
    decode: (payloads, context) =>
      Promise.all(
        payloads.map(async (payload) => (await decodeThrough(codec, payload, context)) ?? UNDECODABLE_PAYLOAD),
      ),
  };
}

/** Throws `VALIDATION_ERROR` for what Holdfast cannot honour. */
export function workerDataConverter(given: DataConverter | undefined): DataConverter {
  checkDataConverter(given);
  const { payloadCodecs = [], failureConverterPath } = given ?? {};
  return {
    payloadCodecs: payloadCodecs.map(tolerant),
    ...(failureConverterPath === undefined ? {} : { failureConverterPath }),
  };
}

/** Messages are JSON: a converter of one's own would make two readers see two logs. */
export function checkDataConverter(given: DataConverter | undefined): void {
  if (given?.payloadConverterPath !== undefined)
    throw new HoldfastError(
      'VALIDATION_ERROR',
      'dataConverter.payloadConverterPath is not supported: messages are JSON. Use payloadCodecs to encrypt or compress.',
    );
}
