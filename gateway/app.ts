/**
 * HTTP and SSE over a HoldfastClient. It adds no rules of its own: what may be, the client and the contract decide.
 *
 * @example
 * const client = await HoldfastClient.connect({ address: 'localhost:7233' });
 * const app = createGateway({ client });
 */
import { setMaxListeners } from 'node:events';
import { OpenAPIHono } from '@hono/zod-openapi';
import { HoldfastError } from '../protocol/errors.js';
import { accessLog } from './access-log.js';
import type { GatewayContext, GatewayEnv } from './context.js';
import { mountDocument } from './document.js';
import { authentication, hostAndOrigin } from './gatekeeper.js';
import { mount, routingPath } from './operation.js';
import { problemOf, problemResponse } from './problem.js';
import { actionOperations } from './routes/actions.js';
import { conversationOperations } from './routes/conversations.js';
import { eventOperations } from './routes/events.js';
import { executionOperations } from './routes/executions.js';
import { runtimeOperations } from './routes/runtime.js';
import { type GatewayOptions, type Settings, settingsOf } from './settings.js';

/**
 * The gateway as a Hono app, for a server of your own. `serveGateway` runs it as it is meant to be run.
 *
 * @throws HoldfastError `VALIDATION_ERROR` that names an option which makes no sense
 */
export function createGateway(options: GatewayOptions): OpenAPIHono<GatewayEnv> {
  return appOf(settingsOf(options));
}

export function appOf(settings: Settings): OpenAPIHono<GatewayEnv> {
  // Every request that waits listens for the end.
  setMaxListeners(0, settings.closing.signal);
  const app = new OpenAPIHono<GatewayEnv>({ getPath: routingPath });
  app.use(accessLog(settings.logger));
  app.use(async (c, next) => {
    await next();
    c.res.headers.set('X-Content-Type-Options', 'nosniff');
    if (!c.res.headers.has('Cache-Control')) c.res.headers.set('Cache-Control', 'no-store');
    // A connection that stays would hold up the end.
    if (settings.closing.signal.aborted) c.res.headers.set('Connection', 'close');
  });
  app.use(hostAndOrigin(settings));
  app.use('/v1/*', async (_, next) => {
    if (settings.closing.signal.aborted)
      throw new HoldfastError('RUNTIME_UNAVAILABLE', 'this gateway is shutting down');
    await next();
  });
  app.use('/v1/*', authentication(settings));
  mount(app, settings, [
    ...runtimeOperations(),
    ...conversationOperations(),
    ...executionOperations(),
    ...actionOperations(),
    ...eventOperations(),
  ]);
  mountDocument(app);
  app.notFound((c) => {
    c.get('notes').code = 'NOT_FOUND';
    return problemResponse({ code: 'NOT_FOUND', message: 'there is no such path; see /docs' });
  });
  app.onError((error, c) => failed(error, c, settings));
  return app;
}

function failed(error: unknown, c: GatewayContext, { logger }: Settings): Response {
  const { problem, headers } = problemOf(error);
  c.get('notes').code = problem.code;
  if (problem.code === 'INTERNAL_ERROR')
    logger?.error({ requestId: c.get('requestId'), ...described(error) }, 'a request failed for a reason of our own');
  return problemResponse(problem, headers);
}

/** Not what else an error may carry along: a request, or what a server sent. */
function described(error: unknown): { readonly error: string; readonly stack?: string | undefined } {
  return error instanceof Error ? { error: error.message, stack: error.stack } : { error: typeof error };
}
