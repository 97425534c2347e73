/** The OpenAPI document, made from the operations themselves, and a page to read it without anything from elsewhere. */
import type { OpenAPIHono } from '@hono/zod-openapi';
import { VERSION } from '../protocol/version.js';
import type { GatewayEnv } from './context.js';
import { docsPage } from './docs-page.js';
import { Refusal } from './problem.js';

export type OpenApiDocument = ReturnType<OpenAPIHono<GatewayEnv>['getOpenAPI31Document']>;

const DESCRIPTION = `Durable executions of agent harnesses. Bodies are JSON; errors are \`{code, message, details?}\` with
the status of their code. Times are ISO 8601 in UTC. Unknown fields and parameters are refused by name.`;

const TAGS = {
  Runtime: 'What this runtime is, and whether it is well.',
  Conversations: 'What executions that belong together share.',
  Executions: 'Start, read, wait for, list and cancel them.',
  Actions: 'What waits for a person, and the answers.',
  Events: "An execution's log, in pages or live.",
} as const;
export type Tag = keyof typeof TAGS;

export function documentOf(app: OpenAPIHono<GatewayEnv>): OpenApiDocument {
  app.openAPIRegistry.registerComponent('securitySchemes', 'bearer', {
    type: 'http',
    scheme: 'bearer',
    description: 'An API token, where the gateway has some.',
  });
  app.openAPIRegistry.registerComponent('securitySchemes', 'readToken', {
    type: 'apiKey',
    in: 'query',
    name: 'access_token',
    description: "A short-lived token for one execution's events.",
  });
  return app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'Holdfast',
      version: VERSION,
      description: DESCRIPTION.replaceAll('\n', ' '),
      license: { name: 'Apache-2.0', url: 'https://www.apache.org/licenses/LICENSE-2.0' },
    },
    servers: [{ url: '/' }],
    tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
  });
}

/** Serves both. They are made once, and open to everyone: they hold no data. */
export function mountDocument(app: OpenAPIHono<GatewayEnv>): void {
  let document: OpenApiDocument | undefined;
  const made = (): OpenApiDocument => {
    document ??= documentOf(app);
    return document;
  };
  for (const path of ['/openapi.json', '/docs'])
    app.on(['POST', 'PUT', 'PATCH', 'DELETE'], path, () => {
      throw new Refusal('METHOD_NOT_ALLOWED', 'this path takes GET, HEAD', { Allow: 'GET, HEAD' });
    });
  app.get('/openapi.json', (c) => c.json(made()));
  app.get('/docs', (c) =>
    c.html(docsPage(made()), 200, {
      'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'",
    }),
  );
}
