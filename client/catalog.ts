/** The providers there are, from the catalog's memo: one `describe`, no worker. */

import type { Client } from '@temporalio/client';
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import type { Decode } from '../log/decode.js';
import { GRPC, grpcCode, isMissingNamespace } from '../log/grpc.js';
import { HoldfastError } from '../protocol/errors.js';
import { type Json, jsonBytes } from '../protocol/json.js';
import { type ProviderManifest, unsupportedOf } from '../protocol/manifest.js';
import { CATALOG_WORKFLOW_ID, type CatalogEntry, MEMO } from '../workflows/messages.js';
import { describe } from './describe.js';

/** What the catalog holds may be this old, in milliseconds. What it lacks is never cached. */
const CACHE_MS = 5_000;

export class Catalog {
  private entries: Readonly<Record<string, CatalogEntry>> = {};
  private readAt = Number.NEGATIVE_INFINITY;
  private readonly validators = new Map<string, { schema: Json; validate: ValidateFunction }>();
  private readonly ajv = new Ajv2020({ strict: false, allErrors: false, validateFormats: false });

  constructor(
    private readonly client: Client,
    private readonly decode: Decode,
  ) {}

  async list(): Promise<ProviderManifest[]> {
    await this.refresh();
    return Object.values(this.entries).map((entry) => entry.manifest);
  }

  /** The entry of a provider. Throws `PROVIDER_NOT_FOUND` after a fresh look. */
  async get(providerId: string): Promise<CatalogEntry> {
    const cached = this.find(providerId);
    if (cached !== undefined && performance.now() - this.readAt < CACHE_MS) return cached;
    await this.refresh();
    const entry = this.find(providerId);
    if (entry !== undefined) return entry;
    const known = Object.keys(this.entries);
    throw new HoldfastError(
      'PROVIDER_NOT_FOUND',
      known.length === 0
        ? `no provider ${providerId}: no worker has announced any provider yet; start a worker`
        : `no provider ${providerId}; start a worker that has it. There are: ${known.join(', ')}`,
      { details: { providers: known } },
    );
  }

  private find(providerId: string): CatalogEntry | undefined {
    return Object.hasOwn(this.entries, providerId) ? this.entries[providerId] : undefined;
  }

  private async refresh(): Promise<void> {
    try {
      const { memo } = await describe(this.client, this.decode, CATALOG_WORKFLOW_ID, [MEMO.catalog]);
      this.entries = (memo[MEMO.catalog] ?? {}) as Readonly<Record<string, CatalogEntry>>;
      this.readAt = performance.now();
    } catch (error) {
      // No workflow yet: no worker has announced anything. (A missing namespace is another matter.)
      if (grpcCode(error) !== GRPC.NOT_FOUND || isMissingNamespace(error)) throw error;
      this.entries = {};
    }
  }

  /** Invariant 3, and the configuration against its published schema: before anything is started. */
  check(entry: CatalogEntry, required: readonly string[], config: Json): void {
    const missing = unsupportedOf(entry.manifest, required);
    if (missing.length > 0)
      throw new HoldfastError(
        'CAPABILITY_UNSUPPORTED',
        `provider ${entry.manifest.id} does not support ${missing.join(', ')}`,
        { details: { missing } },
      );
    const schema = entry.manifest.metadata?.configSchema;
    if (schema === undefined) return;
    const validate = this.validator(entry.manifest.id, schema);
    if (validate === undefined || validate(config)) return;
    throw new HoldfastError('VALIDATION_ERROR', configProblem(validate.errors ?? []), {
      details: { issues: validate.errors ?? [] },
    });
  }

  private validator(providerId: string, schema: Json): ValidateFunction | undefined {
    const known = this.validators.get(providerId);
    if (known !== undefined && (known.schema === schema || JSON.stringify(known.schema) === JSON.stringify(schema)))
      return known.validate;
    if (typeof schema !== 'object' || schema === null || jsonBytes(schema) > 256 * 1024) return undefined;
    try {
      const validate = this.ajv.compile(schema);
      this.validators.set(providerId, { schema, validate });
      return validate;
    } catch {
      // A schema of a dialect that we cannot read: the worker checks the configuration itself.
      return undefined;
    }
  }
}

/** Alternatives that are named, at most. */
const MAX_ALTERNATIVES = 6;

/**
 * Of a union every branch complains. Those that got furthest into the value are the ones that were meant; when several
 * got as far, each is named.
 */
function configProblem(issues: readonly ErrorObject[]): string {
  const depth = (issue: ErrorObject): number => issue.instancePath.split('/').length;
  const deepest = Math.max(...issues.map(depth));
  const meant = issues.find((issue) => depth(issue) === deepest);
  if (meant === undefined) return 'config: does not fit';
  const told = issues
    .filter((issue) => issue.instancePath === meant.instancePath && !['anyOf', 'oneOf'].includes(issue.keyword))
    .map((issue) => `${issue.message ?? 'does not fit'}${extra(issue.params)}`);
  const different = [...new Set(told)];
  const shown = different.slice(0, MAX_ALTERNATIVES).join(', or ');
  const more = different.length > MAX_ALTERNATIVES ? ', or another form' : '';
  return `config${meant.instancePath.replaceAll('/', '.')}: ${shown === '' ? 'does not fit' : shown}${more}`;
}

function extra(params: unknown): string {
  const { additionalProperty: name, allowedValues } = (params ?? {}) as Record<string, unknown>;
  if (Array.isArray(allowedValues)) return `: ${allowedValues.map((each) => JSON.stringify(each)).join(', ')}`;
  return typeof name === 'string' ? ` (${JSON.stringify(name)})` : '';
}
