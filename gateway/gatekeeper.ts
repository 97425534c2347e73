/**
 * Who gets in. A server on this machine is within reach of every web page in the user's browser, so a name that a
 * stranger bound to this address (`Host`) and a page of another site (`Origin`) are sent away before anything is read;
 * then comes the bearer token, which says whose executions these are.
 */
import type { MiddlewareHandler } from 'hono';
import type { GatewayContext, GatewayEnv, Identity } from './context.js';
import { Refusal } from './problem.js';
import type { Settings } from './settings.js';

const CORS_HEADERS = {
  'Access-Control-Allow-Methods': 'GET, HEAD, POST',
  'Access-Control-Allow-Headers': 'Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Request-Id',
  'Access-Control-Expose-Headers': 'Idempotency-Replayed, Retry-After, X-Request-Id',
  'Access-Control-Max-Age': '600',
} as const;

/** Checks `Host` and `Origin`, and answers for the origins that may call from another site. */
export function hostAndOrigin(settings: Settings): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const host = (c.req.header('host') ?? new URL(c.req.url).host).toLowerCase();
    if (!settings.takesHost(withoutPort(host)))
      throw new Refusal(
        'FORBIDDEN',
        'this Host is not served here; name it in "hosts" (holdfast serve --allow-host), or call by the address itself',
      );
    const origin = c.req.header('origin')?.toLowerCase();
    const isAllowed = origin !== undefined && settings.origins.has(origin);
    if (origin !== undefined && !isAllowed && origin.replace(/^https?:\/\//, '') !== host)
      throw new Refusal('FORBIDDEN', 'web pages of this Origin may not call; name it in "origins"');
    if (isAllowed && c.req.method === 'OPTIONS' && c.req.header('access-control-request-method') !== undefined)
      return new Response(null, { status: 204, headers: corsHeaders(origin) });
    await next();
    if (isAllowed) for (const [name, value] of Object.entries(corsHeaders(origin))) c.res.headers.set(name, value);
    return undefined;
  };
}

function corsHeaders(origin: string): Record<string, string> {
  return { 'Access-Control-Allow-Origin': origin, Vary: 'Origin', ...CORS_HEADERS };
}

function withoutPort(host: string): string {
  return host.replace(/:\d+$/, '');
}

/** Finds out who calls. A bearer token wins over a read token in the address. */
export function authentication(settings: Settings): MiddlewareHandler<GatewayEnv> {
  return async (c, next) => {
    const identity = identityOf(c, settings);
    c.set('identity', identity);
    c.get('notes').tenant = identity.tenant;
    await next();
  };
}

function identityOf(c: GatewayContext, { tokens, readTokens, defaultTenant }: Settings): Identity {
  const header = c.req.header('authorization');
  const inAddress = header === undefined ? c.req.query('access_token') : undefined;
  if (inAddress !== undefined) {
    const grant = readTokens.open(inAddress);
    return { tenant: grant.tenant, grant };
  }
  if (tokens === undefined) return { tenant: defaultTenant };
  const [, bearer] = /^bearer +([^\s]+) *$/i.exec(header ?? '') ?? [];
  const tenant = bearer === undefined ? undefined : tokens.tenantOf(bearer);
  if (tenant !== undefined) return { tenant };
  const challenge = header === undefined ? 'Bearer' : 'Bearer error="invalid_token"';
  throw new Refusal(
    'UNAUTHENTICATED',
    header === undefined ? 'send "Authorization: Bearer <token>"' : 'this token is not known here',
    { 'WWW-Authenticate': challenge },
  );
}
