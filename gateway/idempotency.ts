/** The `Idempotency-Key` header, as text or in the quotes that its draft standard asks for. */
import { HoldfastError } from '../protocol/errors.js';
import type { GatewayContext } from './context.js';

/** @throws HoldfastError `VALIDATION_ERROR` */
export function idempotencyKeyOf(c: GatewayContext): string | undefined {
  const header = c.req.header('idempotency-key');
  if (header === undefined) return undefined;
  const key = /^"(.*)"$/.exec(header)?.[1] ?? header;
  // A header has no encoding of its own: other characters would make another key than the same text in a body.
  if (!/^[\x20-\x7e]{1,200}$/.test(key))
    throw new HoldfastError(
      'VALIDATION_ERROR',
      'Idempotency-Key: takes 1–200 printable ASCII characters; put any other into body.idempotencyKey',
    );
  return key;
}
