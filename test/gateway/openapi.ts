/** Holds every response of a test against the OpenAPI document that the gateway itself serves. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, { readonly responses: Record<string, unknown> }>>>>;
}

export class ResponseCheck {
  private readonly ajv = new Ajv2020({ strict: false, validateFormats: false });
  private readonly compiled = new Map<string, ValidateFunction>();
  private readonly paths: readonly { readonly template: string; readonly pattern: RegExp }[];

  constructor(private readonly document: Document) {
    this.ajv.addSchema({ $id: 'doc:', ...document });
    this.paths = Object.keys(document.paths).map((template) => ({
      template,
      pattern: new RegExp(`^${template.replaceAll(/[.*+?^$()|[\]\\]/g, '\\$&').replaceAll(/\{\w+\}/g, '[^/:]+')}$`),
    }));
  }

  static async of(url: string): Promise<ResponseCheck> {
    const response = await fetch(`${url}/openapi.json`);
    return new ResponseCheck((await response.json()) as Document);
  }

  /** What is wrong with this answer, or undefined. */
  problem(method: string, path: string, status: number, body: unknown): string | undefined {
    const plain = path.replace(/\?.*$/, '').replace(/%3A/i, ':');
    const template = this.paths.find(({ pattern }) => pattern.test(plain))?.template;
    const operation = template === undefined ? undefined : this.document.paths[template]?.[method.toLowerCase()];
    if (template === undefined || operation === undefined)
      return status < 400 ? `${method} ${path}: ${status}, but not in the document` : this.against('Problem', body);
    if (!Object.hasOwn(operation.responses, String(status)))
      return `${method} ${template}: ${status} is not in the document: ${JSON.stringify(body)}`;
    const at = ['paths', template, method.toLowerCase(), 'responses', String(status)];
    const content = (operation.responses[String(status)] as { content?: Record<string, unknown> }).content;
    if (content?.['application/json'] === undefined) return undefined;
    return this.validate([...at, 'content', 'application/json', 'schema'], body);
  }

  private against(schema: string, body: unknown): string | undefined {
    return this.validate(['components', 'schemas', schema], body);
  }

  private validate(at: readonly string[], body: unknown): string | undefined {
    const pointer = at.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/');
    const known = this.compiled.get(pointer) ?? this.ajv.compile({ $ref: `doc:#/${pointer}` });
    this.compiled.set(pointer, known);
    if (known(body)) return undefined;
    return `${at.join(' ')}: ${this.ajv.errorsText(known.errors)}: ${JSON.stringify(body)?.slice(0, 500)}`;
  }
}
