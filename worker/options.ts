/** What `createWorker` takes, and what it refuses. */
import type { ConnectionOptions } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { z } from 'zod';
import { HoldfastError } from '../protocol/errors.js';
import { jsonBytes } from '../protocol/json.js';
import { KIB, MAX_MANIFEST_BYTES } from '../protocol/limits.js';
import { type ProviderManifest, providerManifestSchema } from '../protocol/manifest.js';
import type { AnyProvider, RunContext } from '../providers/provider.js';
import { DEFAULT_POOL_SETTINGS, type PoolSettings } from '../workflows/messages.js';

export interface HoldfastWorkerOptions {
  readonly providers: readonly AnyProvider[];
  /** Host and port of the Temporal frontend. Default `localhost:7233`. */
  readonly address?: string;
  /** Default `default`. */
  readonly namespace?: string;
  /** Further connection options: `tls`, `apiKey`, `metadata`. */
  readonly connection?: Pick<ConnectionOptions, 'tls' | 'apiKey' | 'metadata'>;
  /** Payload codecs and failure converter; the same as the client's. */
  readonly dataConverter?: DataConverter;
  /** Live providers at once, by provider id. Default 2 for one that runs a subprocess, else 100. */
  readonly slots?: Readonly<Record<string, number>>;
  /** When a run is continued as new. Default 1,000 batches or 4 MiB. */
  readonly rollover?: { readonly batches?: number; readonly bytes?: number };
  /** How this worker's executions are watched, in milliseconds. */
  readonly pool?: Partial<PoolSettings>;
  /** How long `shutdown` waits for live providers before it stops them, in milliseconds. Default 30 s. */
  readonly drainMs?: number;
  /** Drain on SIGTERM and SIGINT. Default true. */
  readonly handleSignals?: boolean;
  /** Where diagnostics go; default: warnings and errors to standard error, as JSON lines. */
  readonly log?: RunContext['log'];
}

const milliseconds = z.number().min(1).max(86_400_000).optional();
const anything = z.unknown().optional();
const optionsSchema = z.strictObject({
  providers: anything,
  address: z.string().min(1).optional(),
  namespace: z.string().min(1).optional(),
  connection: anything,
  dataConverter: anything,
  handleSignals: z.boolean().optional(),
  log: anything,
  slots: z.record(z.string(), z.int().min(1).max(100_000)).optional(),
  rollover: z
    .strictObject({
      batches: z.int().min(1).max(2_000).optional(),
      bytes: z
        .int()
        .min(1)
        .max(16_384 * KIB)
        .optional(),
    })
    .optional(),
  pool: z
    .strictObject({ heartbeatTimeoutMs: milliseconds, leaseMs: milliseconds, stopGraceMs: milliseconds })
    .optional(),
  drainMs: z.number().min(0).optional(),
});

/** @throws HoldfastError `VALIDATION_ERROR` that names the option. */
export function checkOptions(options: HoldfastWorkerOptions): void {
  const parsed = optionsSchema.safeParse(options);
  const { leaseMs, stopGraceMs } = { ...DEFAULT_POOL_SETTINGS, ...options.pool };
  if (parsed.success && stopGraceMs > leaseMs)
    // A host has to be done with a provider before anyone may start it elsewhere.
    throw new HoldfastError('VALIDATION_ERROR', 'createWorker: pool.stopGraceMs: must be at most pool.leaseMs');
  if (parsed.success) return;
  const [issue] = parsed.error.issues;
  throw new HoldfastError('VALIDATION_ERROR', `createWorker: ${issue?.path.join('.') || 'options'}: ${issue?.message}`);
}

/**
 * The providers by their ids.
 *
 * @throws HoldfastError `VALIDATION_ERROR` that names the provider.
 */
export function checkedProviders({
  providers: given,
  slots = {},
}: HoldfastWorkerOptions): ReadonlyMap<string, AnyProvider> {
  const providers = new Map<string, AnyProvider>();
  for (const provider of given) {
    if (typeof provider === 'function')
      throw new HoldfastError('VALIDATION_ERROR', 'a provider is a function; was it meant to be called, as in echo()?');
    const manifest = providerManifestSchema.safeParse(provider.manifest);
    if (!manifest.success) {
      const issue = manifest.error.issues[0];
      const where = `provider ${JSON.stringify(provider.manifest?.id)}: manifest.${issue?.path.join('.')}`;
      throw new HoldfastError('VALIDATION_ERROR', `${where}: ${issue?.message}`);
    }
    if (providers.has(manifest.data.id))
      throw new HoldfastError('VALIDATION_ERROR', `two providers have the id ${JSON.stringify(manifest.data.id)}`);
    const bytes = jsonBytes(publishedManifest(provider));
    if (bytes > MAX_MANIFEST_BYTES)
      throw new HoldfastError(
        'VALIDATION_ERROR',
        `provider ${JSON.stringify(manifest.data.id)}: its manifest takes ${bytes} bytes with the schema of its configuration; at most ${MAX_MANIFEST_BYTES}`,
      );
    providers.set(manifest.data.id, provider);
  }
  if (providers.size === 0) throw new HoldfastError('VALIDATION_ERROR', 'a worker needs at least one provider');
  for (const id of Object.keys(slots))
    if (!providers.has(id))
      throw new HoldfastError(
        'VALIDATION_ERROR',
        `createWorker: slots.${id}: no such provider; there are: ${[...providers.keys()].join(', ')}`,
      );
  return providers;
}

/** The manifest as it is published: with the JSON Schema of the configuration, so that callers are told at once. */
export function publishedManifest(provider: AnyProvider): ProviderManifest {
  const configSchema = z.toJSONSchema(provider.config, { io: 'input', unrepresentable: 'any' });
  const metadata = { ...provider.manifest.metadata, configSchema: JSON.parse(JSON.stringify(configSchema)) };
  return { ...provider.manifest, metadata };
}
