/**
 * A payload converter that never throws on a message. A signal that the worker cannot decode (the Temporal UI's own
 * form offers such encodings) would fail every later workflow task before any handler runs; here it becomes
 * `UNDECODABLE`, which no schema takes, so it is dropped.
 *
 * Bundled with the workflows, and used by the log's readers, so that both see the same.
 */
import { defaultPayloadConverter, type Payload, type PayloadConverter } from '@temporalio/common';
import { UNDECODABLE } from '../protocol/log/inputs.js';

export const payloadConverter: PayloadConverter = {
  toPayload: (value) => defaultPayloadConverter.toPayload(value),
  fromPayload<T>(payload: Payload): T {
    try {
      const value: unknown = defaultPayloadConverter.fromPayload(payload);
      return (value instanceof Uint8Array ? UNDECODABLE : value) as T;
    } catch {
      return UNDECODABLE as T;
    }
  },
};
