/** Payloads as they stand in history, decoded without ever throwing: what cannot be read becomes `UNDECODABLE`. */
import type { Payload, PayloadCodec } from '@temporalio/common';
import { UNDECODABLE } from '../protocol/log/inputs.js';
import { payloadConverter } from '../workflows/payload-converter.js';

export type Decode = (payloads: readonly Payload[] | null | undefined) => Promise<unknown[]>;

/** Decodes through `codecs` (last first) and then as JSON. */
export function decoder(codecs: readonly PayloadCodec[] = []): Decode {
  return async (payloads) => {
    if (!payloads || payloads.length === 0) return [];
    return await Promise.all(payloads.map((payload) => decodeOne(codecs, payload)));
  };
}

async function decodeOne(codecs: readonly PayloadCodec[], payload: Payload): Promise<unknown> {
  let decoded: Payload | undefined = payload;
  try {
    for (const codec of [...codecs].reverse()) {
      if (decoded !== undefined) [decoded] = await codec.decode([decoded]);
    }
  } catch {
    return UNDECODABLE;
  }
  return decoded === undefined ? UNDECODABLE : payloadConverter.fromPayload(decoded);
}
