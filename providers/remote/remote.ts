/**
 * Drives an execution of another server that speaks this contract over HTTP and server-sent events. Here it is an
 * execution like any other; what does the work is there. A lost attempt goes on with the same remote execution.
 *
 * @example
 * remoteProvider({
 *   id: 'coder',
 *   baseURL: 'https://agents.example',
 *   tokenEnv: 'AGENTS_TOKEN',
 *   provider: 'opencode',
 *   capabilities: { 'execution.cancel': 'native', 'action.approval': 'native' },
 * });
 */
import { type Json, type JsonObject, jsonObject } from '../../protocol/json.js';
import { type CapabilityLevel, PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider } from '../provider.js';
import { asHoldfastError, Remote } from './http.js';
import { type RemoteOptions, resolveOptions } from './options.js';
import { runRemote } from './run.js';
import { remoteCapabilities } from './start.js';

export type { RemoteOptions } from './options.js';

const REMOTE_PROVIDER_VERSION = '1.0.0';

/**
 * A provider for one provider of another runtime. An execution's `input` and `config` are passed on as they are; the
 * other end says what they have to be.
 *
 * @throws HoldfastError `VALIDATION_ERROR` when the options are wrong, or the token's variable is not set
 */
export function remoteProvider(options: RemoteOptions): Provider<JsonObject> {
  const resolved = resolveOptions(options);
  return {
    manifest: {
      id: resolved.id,
      name: resolved.name,
      version: REMOTE_PROVIDER_VERSION,
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['remote'],
      capabilities: resolved.capabilities,
      metadata: { provider: resolved.provider as Json },
    },
    config: jsonObject,
    recovery: 'journal',
    run: (ctx) => runRemote(ctx, resolved),
  };
}

/**
 * What the provider at the other end can do now, to be promised as `capabilities`. Waits up to `unreachableMs` for the
 * other end.
 *
 * @throws HoldfastError `VALIDATION_ERROR`, `PROVIDER_NOT_FOUND`, `RUNTIME_UNAVAILABLE`, `PROVIDER_ERROR`
 */
export async function capabilitiesOf(options: RemoteOptions): Promise<Record<string, CapabilityLevel>> {
  const remote = new Remote(resolveOptions(options), () => undefined);
  try {
    return { ...(await remoteCapabilities(remote)) };
  } catch (error) {
    throw asHoldfastError(error);
  }
}
