/** The OpenAPI document as tools take it: valid, without a finding of a linter, and readable as a page. */
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { Validator } from '@seriousme/openapi-schema-validator';
import { expect, it } from 'vitest';
import { createGateway } from '../../gateway/index.js';

/** All rules that the linter has, but for these. */
const RULES = {
  extends: ['all'],
  rules: {
    // Whom to write to is for those who run one to say.
    'info-contact': 'off',
    // A person finds operations by what they are about, not by the alphabet.
    'tags-alphabetical': 'off',
    // The contract has errors, paths and verbs of its own: `{code, message, details?}`, `/v1/runtime`, `:readToken`.
    'operation-4xx-problem-details-rfc7807': 'off',
    'path-segment-plural': 'off',
    'paths-kebab-case': 'off',
    // Examples are of whole objects; the empty text is a text.
    'scalar-property-missing-example': 'off',
    'required-string-property-missing-min-length': 'off',
    'request-mime-type': { severity: 'error', allowedValues: ['application/json'] },
    'response-mime-type': { severity: 'error', allowedValues: ['application/json', 'text/event-stream'] },
  },
} as const;

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
  readonly components: { readonly schemas: { readonly Execution: { examples: { state: string }[] } } };
}

/** What the document says needs nobody to answer for it. */
const app = createGateway({ clientFor: () => Promise.reject(new Error('the document asks no client')) });
const served = async (path: string): Promise<Response> => await app.request(`http://localhost${path}`);
const document = async (): Promise<Document> => (await (await served('/openapi.json')).json()) as Document;

async function findings(given: Document): Promise<string[]> {
  const config = await createConfig(RULES as unknown as NonNullable<Parameters<typeof createConfig>[0]>);
  const problems = await lintFromString({ source: JSON.stringify(given), absoluteRef: 'openapi.json', config });
  return problems.map(({ ruleId, message, location }) => `${ruleId} at ${location[0]?.pointer}: ${message}`);
}

it('is valid OpenAPI 3.1, and a strict linter finds nothing', async () => {
  const given = await document();
  const result = await new Validator().validate({ ...structuredClone(given) });
  expect(result).toMatchObject({ valid: true });
  expect(await findings(given)).toEqual([]);
});

it('has examples that fit what they are of: one that does not is found', async () => {
  const given = await document();
  const [example] = given.components.schemas.Execution.examples;
  if (example !== undefined) example.state = 'asleep';
  expect(await findings(given)).toEqual([expect.stringContaining('no-invalid-schema-examples')]);
});

it('has every operation', async () => {
  const { paths } = await document();
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.keys(item).map((method) => `${method} ${path}`),
  );
  expect(operations.sort()).toEqual([
    'get /healthz',
    'get /readyz',
    'get /v1/actions',
    'get /v1/conversations/{id}',
    'get /v1/conversations/{id}/executions',
    'get /v1/executions',
    'get /v1/executions/{id}',
    'get /v1/executions/{id}/actions',
    'get /v1/executions/{id}/artifacts',
    'get /v1/executions/{id}/events',
    'get /v1/runtime',
    'get /v1/runtime/capabilities',
    'post /v1/conversations',
    'post /v1/conversations/{id}:close',
    'post /v1/executions',
    'post /v1/executions/{id}/actions/{actionId}:respond',
    'post /v1/executions/{id}:cancel',
    'post /v1/executions/{id}:readToken',
  ]);
});

it('is shown as a page that fetches nothing', async () => {
  const response = await served('/docs');
  const page = await response.text();
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
  expect(page).toContain('/v1/executions/{id}:cancel');
  expect(page).not.toMatch(/<script|src=|@import|url\(/);
});
