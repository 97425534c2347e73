/** Ids drawn at random or derived from an idempotency key, and what makes two requests the same (invariant 4). */
import { createHash, randomBytes } from 'node:crypto';
import type { StartExecutionRequest } from '../protocol/execution.js';
import { type IdKind, idFrom } from '../protocol/ids.js';
import { canonicalJson, type Json } from '../protocol/json.js';

export function randomId(kind: IdKind): string {
  return idFrom(kind, randomBytes(17));
}

/** The id of the execution that this key stands for: a hash, since a key in clear text is in no id. */
export function executionIdOf(tenant: string, conversationId: string, key: string): string {
  return idFrom(
    'exec',
    createHash('sha256')
      .update(canonicalJson([tenant, conversationId, key]))
      .digest(),
  );
}

/** Equal for equivalent requests: same conversation, provider, input, set of capabilities and config. */
export function fingerprint(request: StartExecutionRequest): string {
  const { conversationId, providerId, input, requiredCapabilities = [], config = {} } = request;
  const capabilities = [...new Set(requiredCapabilities)].sort();
  const compared: Json = { conversationId, providerId, input, capabilities, config };
  return createHash('sha256').update(canonicalJson(compared)).digest('hex');
}
