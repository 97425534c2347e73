/** Request ids, and one line a request in the log: never a body, a query, a header's value or a credential. */
import { randomUUID } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import type { Logger } from 'pino';
import type { GatewayContext, GatewayEnv, Notes } from './context.js';

/** A caller's own id is taken when it looks like one. */
const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/;

export function accessLog(logger: Logger | undefined): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const began = performance.now();
    const given = c.req.header('x-request-id') ?? '';
    const requestId = REQUEST_ID.test(given) ? given : randomUUID();
    const notes: Notes = {};
    c.set('requestId', requestId);
    c.set('notes', notes);
    const { outgoing } = c.env ?? {};
    const write = (aborted: boolean): void => {
      const status = outgoing?.statusCode ?? c.res.status;
      const ms = Math.round((performance.now() - began) * 10) / 10;
      const line = { requestId, method: c.req.method, path: pathOf(c), status, ms, ...notes };
      logger?.info(aborted ? { ...line, aborted } : line, 'request');
    };
    if (logger !== undefined)
      outgoing?.once('close', () => {
        // After those who also listen for it: they say how a stream ended.
        setImmediate(write, !outgoing.writableFinished);
      });
    await next();
    c.res.headers.set('X-Request-Id', requestId);
    if (logger !== undefined && outgoing === undefined) write(false);
  };
}

/** Without the query, which may hold a token; cut short, since a caller chooses it. */
function pathOf(c: GatewayContext): string {
  const { pathname } = new URL(c.req.url);
  return pathname.length > 200 ? `${pathname.slice(0, 200)}…` : pathname;
}
