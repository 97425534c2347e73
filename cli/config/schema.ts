/** What a configuration file may hold. It is checked strictly, so that a misspelt key is named. */
import type { DataConverter } from '@temporalio/common';
import { z } from 'zod';
import { MAX_TIMER_MS, milliseconds } from '../../protocol/duration.js';
import { idSchema } from '../../protocol/ids.js';
import type { AnyProvider } from '../../providers/provider.js';

const text = z.string().min(1);
const port = z.int().min(0).max(65_535);
const positive = z.int().min(1);
/** Checked by the provider itself, which knows what belongs there. */
const options = z.record(z.string(), z.unknown());

const isProvider = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && 'manifest' in value && 'run' in value;

/** The providers that come with Holdfast, by their options; what is written in code stands in `custom`. */
const namedProviders = z
  .strictObject({
    scripted: z.strictObject({ id: idSchema.optional(), allowCrash: z.boolean().optional() }).optional(),
    /** Agents that speak the Agent Client Protocol; `providers/acp/options.ts` checks what is inside. */
    acp: options.optional(),
    /** A loop of a model and tools; `providers/ai/options.ts`. */
    ai: options.optional(),
    /** Programs that read a prompt; `providers/command/options.ts`. */
    command: options.optional(),
    /** Runtimes elsewhere: one of them, or several by their ids; `providers/remote/options.ts`. */
    remote: z.union([options, z.array(options).min(1)]).optional(),
    custom: z
      .array(z.custom<AnyProvider>(isProvider, 'must be a provider: an object with a manifest and run'))
      .optional(),
  })
  .refine(
    (providers) => Object.values(providers).some((provider) => provider !== undefined),
    'name at least one: scripted, acp, ai, command, remote',
  );

export const configSchema = z.strictObject({
  /** Host and port of the Temporal frontend. TEMPORAL_ADDRESS wins over it. */
  address: text.optional(),
  /** TEMPORAL_NAMESPACE wins over it. */
  namespace: text.optional(),
  /** Whose executions the commands work on. HOLDFAST_TENANT wins over it. */
  tenant: idSchema.optional(),
  /** Where people see the Temporal UI. */
  uiUrl: z.url({ protocol: /^https?$/ }).optional(),
  providers: namedProviders.optional(),
  /** Live providers at once, by provider id. */
  slots: z.record(z.string(), positive).optional(),
  /** The providers, by id, whose queues this worker polls. Default: all that are configured. */
  queues: z.array(idSchema).min(1).optional(),
  pool: z
    .strictObject({
      heartbeatTimeoutMs: milliseconds.optional(),
      leaseMs: milliseconds.optional(),
      stopGraceMs: milliseconds.optional(),
    })
    .optional(),
  rollover: z
    .strictObject({ batches: positive.max(2_000).optional(), bytes: positive.max(16_777_216).optional() })
    .optional(),
  /** How long a worker that is told to stop waits for what it runs. */
  drainMs: z.int().min(0).max(MAX_TIMER_MS).optional(),
  gateway: z
    .strictObject({
      hostname: text.optional(),
      port: port.optional(),
      hosts: z.union([z.array(text), z.literal('any')]).optional(),
      origins: z.array(text).optional(),
      maxBodyBytes: positive.optional(),
      maxStreams: positive.optional(),
      heartbeatMs: milliseconds.optional(),
      stallMs: milliseconds.optional(),
      graceMs: milliseconds.optional(),
    })
    .optional(),
  dev: z.strictObject({ port: port.optional(), uiPort: port.optional(), dbFile: text.optional() }).optional(),
  /** Payload codecs and failure converter, for a file in code: the same for workers, gateway and commands. */
  dataConverter: z
    .custom<DataConverter>((value) => typeof value === 'object' && value !== null, 'must be a DataConverter')
    .optional(),
});

export type HoldfastConfig = z.input<typeof configSchema>;
export type Config = z.output<typeof configSchema>;

/** For `holdfast.config.ts`: gives the configuration back as it is, with its type. */
export function defineConfig(config: HoldfastConfig): HoldfastConfig {
  return config;
}
