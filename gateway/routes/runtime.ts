/** What this runtime is, and whether it is well. */
import { type AnyOperation, operation } from '../operation.js';
import { capabilities, health, json, readiness, runtimeDescription } from '../schemas.js';
import type { GatewayClient } from '../settings.js';

/** Health is asked for by anyone and often; the server is asked once in so many milliseconds. */
const READINESS_MS = 1_000;

export function runtimeOperations(): AnyOperation[] {
  const recent = recentReadiness();
  return [
    operation({
      method: 'get',
      path: '/healthz',
      id: 'health',
      tag: 'Runtime',
      summary: 'Whether this process is alive',
      description: 'Asks nothing of anybody else.',
      access: 'public',
      replies: { 200: json('It is.', health) },
      handle: async ({ c }) => c.json({ status: 'ok' }),
    }),
    operation({
      method: 'get',
      path: '/readyz',
      id: 'readiness',
      tag: 'Runtime',
      summary: 'Whether work that is submitted now would be taken up',
      description: 'The Temporal server answers and at least one worker polls. Says what is missing.',
      access: 'public',
      replies: { 200: json('Ready.', readiness), 503: json('Not ready, with what is missing.', readiness) },
      handle: async ({ c, client, settings }) => {
        if (settings.closing.signal.aborted)
          return c.json({ status: 'not_ready', missing: ['this gateway is shutting down'] }, 503);
        const { ready, missing } = await recent(client);
        return c.json({ status: ready ? 'ready' : 'not_ready', missing }, ready ? 200 : 503);
      },
    }),
    operation({
      method: 'get',
      path: '/v1/runtime',
      id: 'describeRuntime',
      tag: 'Runtime',
      summary: 'This runtime and its providers',
      description: 'The providers are those that workers announced, whether or not one is there now.',
      replies: { 200: json('Name, version, protocol version and providers.', runtimeDescription) },
      handle: async ({ c, client }) => c.json(await client.describeRuntime()),
    }),
    operation({
      method: 'get',
      path: '/v1/runtime/capabilities',
      id: 'listCapabilities',
      tag: 'Runtime',
      summary: 'What each provider can do',
      description: 'Each capability with its level: `native`, `emulated`, `degraded` or `unsupported`.',
      replies: { 200: json('The manifests of all providers.', capabilities) },
      handle: async ({ c, client }) => c.json({ providers: (await client.describeRuntime()).providers }),
    }),
  ];
}

function recentReadiness(): (client: GatewayClient) => ReturnType<GatewayClient['readiness']> {
  let asked: ReturnType<GatewayClient['readiness']> | undefined;
  let askedAt = Number.NEGATIVE_INFINITY;
  return (client) => {
    if (asked === undefined || performance.now() - askedAt > READINESS_MS) {
      asked = client.readiness();
      askedAt = performance.now();
    }
    return asked;
  };
}
