/**
 * One operation of the API: its description in OpenAPI and what the server does are the same object, so that neither can
 * say what the other does not. Path, query and body are parsed by the schemas that the document shows.
 */
import type { OpenAPIHono, RouteConfig } from '@hono/zod-openapi';
import { z } from 'zod';
import { check } from '../client/checks.js';
import { HoldfastError } from '../protocol/errors.js';
import { readJson } from './body.js';
import type { GatewayContext, GatewayEnv } from './context.js';
import type { Tag } from './document.js';
import { PROBLEM_STATUS, type ProblemCode, Refusal } from './problem.js';
import { problemSchema } from './schemas.js';
import type { GatewayClient, Settings } from './settings.js';

type Shape = Readonly<Record<string, z.ZodType>>;
type Parsed<S extends Shape> = { readonly [K in keyof S]: z.output<S[K]> };

/** A request that was found to be well-formed. */
export interface Call<P extends Shape, Q extends Shape, B> {
  readonly c: GatewayContext;
  readonly params: Parsed<P>;
  readonly query: Parsed<Q>;
  readonly body: B;
  readonly client: GatewayClient;
  readonly settings: Settings;
}

export interface Operation<P extends Shape = Shape, Q extends Shape = Shape, B = unknown> {
  readonly method: 'get' | 'post';
  /** As OpenAPI writes it: `/v1/executions/{id}:cancel`. */
  readonly path: string;
  readonly id: string;
  readonly tag: Tag;
  readonly summary: string;
  readonly description: string;
  readonly params?: P;
  readonly query?: Q;
  /** Headers that it looks at; the handler reads them itself. */
  readonly headers?: Shape;
  readonly body?: z.ZodType<B>;
  readonly replies: RouteConfig['responses'];
  /** Besides those that any operation may give. */
  readonly problems?: readonly ProblemCode[];
  /** `public`: for everyone; `events`: for a read token too; else for a bearer token. */
  readonly access?: 'public' | 'events';
  readonly handle: (call: Call<P, Q, B>) => Promise<Response>;
}

/** Lets the schemas of an operation decide the types that its handler sees. */
export function operation<P extends Shape, Q extends Shape, B = undefined>(
  definition: Operation<P, Q, B>,
): Operation<P, Q, B> {
  return definition;
}

/** What `mount` needs to know of an operation whatever its schemas are. */
export type AnyOperation = Omit<Operation, 'handle'> & { readonly handle: (call: never) => Promise<Response> };

const ALWAYS: readonly ProblemCode[] = ['VALIDATION_ERROR', 'FORBIDDEN', 'INTERNAL_ERROR'];
const WITH_BEARER: readonly ProblemCode[] = ['UNAUTHENTICATED', 'RUNTIME_UNAVAILABLE'];
const WITH_BODY: readonly ProblemCode[] = ['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'];

/** Adds operations to the app and to its document; every other method on their paths is refused with what there is. */
export function mount(app: OpenAPIHono<GatewayEnv>, settings: Settings, operations: readonly AnyOperation[]): void {
  const methods = new Map<string, string[]>();
  for (const item of operations) {
    app.openAPIRegistry.registerPath(routeOf(item));
    const path = routingPattern(item.path);
    const known = methods.get(path) ?? [];
    methods.set(path, [...known, ...(item.method === 'get' ? ['GET', 'HEAD'] : ['POST'])]);
    // Made once: zod compiles each schema at its first use, which takes longer than the request.
    const parts = { params: z.strictObject(item.params ?? {}), query: z.strictObject(item.query ?? {}) };
    app.on(item.method.toUpperCase(), path, async (c) => {
      c.get('notes').route = `${item.method.toUpperCase()} ${item.path}`;
      return await answer(item, parts, c, settings);
    });
  }
  for (const [path, known] of methods)
    app.all(path, (c) => {
      const allow = [...known, 'OPTIONS'].join(', ');
      if (c.req.method === 'OPTIONS') return new Response(null, { status: 204, headers: { Allow: allow } });
      throw new Refusal('METHOD_NOT_ALLOWED', `this path takes ${allow}`, { Allow: allow });
    });
}

interface Parts {
  readonly params: z.ZodObject;
  readonly query: z.ZodObject;
}

async function answer(item: AnyOperation, parts: Parts, c: GatewayContext, settings: Settings): Promise<Response> {
  // The parts are parsed by the operation's own schemas, so the handler gets what it was typed for.
  const { params, body, handle } = item as Operation;
  const identity = item.access === 'public' ? undefined : c.get('identity');
  const names = Object.keys(params ?? {});
  const path = Object.fromEntries(names.map((name) => [name, c.req.param(name)]));
  const values = {
    params: check(parts.params, path, 'path'),
    query: check(parts.query, queryOf(c), 'query'),
  };
  if (identity?.grant !== undefined && (item.access !== 'events' || identity.grant.executionId !== values.params.id))
    throw new Refusal('FORBIDDEN', 'a read token reads the events of its own execution and nothing else');
  const given = body === undefined ? undefined : check(body, await readJson(c, settings.maxBodyBytes), 'body');
  const client = await settings.clientFor(identity?.tenant ?? settings.defaultTenant);
  return await handle({ c, ...values, body: given, client, settings });
}

/** The query, each name once. */
function queryOf(c: GatewayContext): Record<string, string> {
  const query = Object.create(null) as Record<string, string>;
  for (const [name, value] of new URL(c.req.url).searchParams) {
    if (Object.hasOwn(query, name))
      throw new HoldfastError('VALIDATION_ERROR', `query.${name}: is given twice; give it once`);
    query[name] = value;
  }
  return query;
}

function routeOf(item: AnyOperation): RouteConfig {
  const { params, query, headers, body } = item;
  const open = item.access === 'public';
  const codes = [...ALWAYS, ...(open ? [] : WITH_BEARER), ...(body ? WITH_BODY : []), ...(item.problems ?? [])];
  return {
    method: item.method,
    path: item.path,
    operationId: item.id,
    tags: [item.tag],
    summary: item.summary,
    description: item.description,
    security: open ? [] : [{ bearer: [] }, ...(item.access === 'events' ? [{ readToken: [] }] : [])],
    request: {
      ...(params === undefined ? {} : { params: z.strictObject(params) }),
      ...(query === undefined ? {} : { query: z.strictObject(query) }),
      ...(headers === undefined ? {} : { headers: z.object(headers) }),
      ...(body === undefined ? {} : { body: { content: { 'application/json': { schema: body } } } }),
    },
    responses: { ...item.replies, ...problemResponses(codes) },
  };
}

/** What these tell besides, in a header. */
const PROBLEM_HEADERS: Partial<Record<ProblemCode, readonly [name: string, description: string]>> = {
  UNAUTHENTICATED: ['WWW-Authenticate', 'What to send (RFC 6750).'],
  QUOTA_EXCEEDED: ['Retry-After', 'Seconds after which to try again.'],
  RUNTIME_UNAVAILABLE: ['Retry-After', 'Seconds after which to try again.'],
};

function problemHeaders(codes: readonly ProblemCode[]): z.ZodObject {
  const headers = codes.flatMap((code) => {
    const [name, description] = PROBLEM_HEADERS[code] ?? [];
    return name === undefined ? [] : [[name, z.string().meta({ description })] as const];
  });
  return z.object(Object.fromEntries(headers));
}

function problemResponses(codes: readonly ProblemCode[]): RouteConfig['responses'] {
  const byStatus = new Map<number, ProblemCode[]>();
  for (const code of codes) byStatus.set(PROBLEM_STATUS[code], [...(byStatus.get(PROBLEM_STATUS[code]) ?? []), code]);
  return Object.fromEntries(
    [...byStatus].map(([status, names]) => [
      status,
      {
        description: names.join(', '),
        ...(names.some((name) => name in PROBLEM_HEADERS) ? { headers: problemHeaders(names) } : {}),
        content: { 'application/json': { schema: problemSchema } },
      },
    ]),
  );
}

/** OpenAPI's `/v1/executions/{id}:cancel` as the router has it. */
function routingPattern(path: string): string {
  return path.replaceAll(/\{(\w+)\}/g, ':$1').replace(/(?<=\w):(\w+)$/, '/@$1');
}

/**
 * The path that the router sees. A verb after a colon (also `%3A`) becomes a segment of its own, which no path that a
 * caller sends can name otherwise.
 */
export function routingPath(request: Request): string {
  const { pathname } = new URL(request.url);
  const plain = pathname.replaceAll('@', '%40');
  return plain.replace(/(?<=[^/])(?::|%3A)(\w+)$/i, '/@$1');
}
