/** The OpenAPI document as one page of plain HTML: no scripts, no fonts, nothing fetched. */
import type { OpenApiDocument } from './document.js';

const STYLE = `
  body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color-scheme: light dark }
  code, pre { font: 14px/1.4 ui-monospace, monospace } pre { overflow: auto; padding: .75rem; background: #8881 }
  summary { cursor: pointer } h2 { margin-top: 2.5rem } details { margin: .5rem 0 } table { border-collapse: collapse }
  td, th { text-align: left; vertical-align: top; padding: .15rem .75rem .15rem 0 } .method { display: inline-block; width: 3.5rem; font-weight: 600 }`;

interface Described {
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly { readonly name: string; readonly in: string; readonly description?: string }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema?: unknown }>> };
  readonly responses?: Readonly<Record<string, { readonly description?: string }>>;
}

export function docsPage(document: OpenApiDocument): string {
  const byTag = new Map<string, string[]>();
  for (const [path, item] of Object.entries(document.paths ?? {}))
    for (const [method, operation] of Object.entries(item as Record<string, Described>)) {
      const tag = operation.tags?.[0] ?? 'Other';
      byTag.set(tag, [...(byTag.get(tag) ?? []), operationHtml(method, path, operation)]);
    }
  const sections = [...byTag].map(([tag, operations]) => `<h2>${text(tag)}</h2>${operations.join('')}`);
  const schemas = Object.entries(document.components?.schemas ?? {}).map(
    ([name, schema]) =>
      `<details id="${text(name)}"><summary><code>${text(name)}</code></summary>${code(schema)}</details>`,
  );
  const title = `${document.info.title} ${document.info.version}`;
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>${text(title)}</title><style>${STYLE}</style></head><body><h1>${text(title)}</h1>
<p>${markup(document.info.description ?? '')} The whole of it: <a href="/openapi.json">openapi.json</a>.</p>
${sections.join('')}<h2>Objects</h2>${schemas.join('')}</body></html>`;
}

function operationHtml(method: string, path: string, operation: Described): string {
  const rows = (operation.parameters ?? []).map(
    ({ name, in: where, description = '' }) =>
      `<tr><td><code>${text(name)}</code></td><td>${text(where)}</td><td>${markup(description)}</td></tr>`,
  );
  const answers = Object.entries(operation.responses ?? {}).map(
    ([status, { description = '' }]) => `<tr><td><code>${text(status)}</code></td><td>${markup(description)}</td></tr>`,
  );
  const body = operation.requestBody?.content['application/json']?.schema;
  return `<details><summary><span class="method">${text(method.toUpperCase())}</span> <code>${text(path)}</code> ${text(operation.summary ?? '')}</summary>
<p>${markup(operation.description ?? '')}</p>${rows.length === 0 ? '' : `<table>${rows.join('')}</table>`}
${body === undefined ? '' : `<p>Body:</p>${code(body)}`}<p>Answers:</p><table>${answers.join('')}</table></details>`;
}

function code(value: unknown): string {
  return `<pre>${text(JSON.stringify(value, null, 2))}</pre>`;
}

function markup(value: string): string {
  return text(value).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}

function text(value: string): string {
  return value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');
}
