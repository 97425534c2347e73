/** The configuration file of `holdfast worker`: JSON, checked strictly, so that a misspelt key is named. */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { HoldfastError } from '../protocol/errors.js';
import { idSchema } from '../protocol/ids.js';
import { type AcpOptions, acpProvider } from '../providers/acp/acp.js';
import type { AnyProvider } from '../providers/provider.js';
import { scriptedProvider } from '../providers/scripted/provider.js';
import type { HoldfastWorkerOptions } from '../worker/worker.js';

/** Node fires a longer timer at once. */
const MAX_TIMER_MS = 2 ** 31 - 1;
const milliseconds = z.int().min(1).max(MAX_TIMER_MS);
const text = z.string().min(1);

const configSchema = z.strictObject({
  /** Host and port of the Temporal frontend; TEMPORAL_ADDRESS wins over it. */
  address: text.optional(),
  /** TEMPORAL_NAMESPACE wins over it. */
  namespace: text.optional(),
  providers: z
    .strictObject({
      scripted: z.strictObject({ id: idSchema.optional(), allowCrash: z.boolean().optional() }).optional(),
      /** Agents that speak the Agent Client Protocol; `providers/acp/options.ts` checks what is inside. */
      acp: z.record(z.string(), z.unknown()).optional(),
    })
    .refine(({ scripted, acp }) => scripted !== undefined || acp !== undefined, 'name at least one: scripted, acp'),
  /** Live providers at once, by provider id. */
  slots: z.record(z.string(), z.int().min(1)).optional(),
  pool: z
    .strictObject({
      heartbeatTimeoutMs: milliseconds.optional(),
      leaseMs: milliseconds.optional(),
      stopGraceMs: milliseconds.optional(),
    })
    .optional(),
  /** How long a worker that is told to stop waits for what it runs. */
  drainMs: z.int().min(0).max(MAX_TIMER_MS).optional(),
});

export type WorkerConfig = z.input<typeof configSchema>;

/** The file as options of a worker. @throws HoldfastError `VALIDATION_ERROR` that names the file and the key */
export async function readWorkerConfig(path: string): Promise<HoldfastWorkerOptions> {
  const config = parse(path, await contents(path));
  const providers = providersOf(path, config);
  const ids = providers.map((provider) => provider.manifest.id);
  for (const id of Object.keys(config.slots ?? {}))
    if (!ids.includes(id))
      throw wrong(path, `slots.${id}: there is no provider of this id; there is ${ids.join(', ')}`);
  const { address, namespace, slots, pool, drainMs } = config;
  return {
    providers,
    ...(address === undefined ? {} : { address }),
    ...(namespace === undefined ? {} : { namespace }),
    ...(slots === undefined ? {} : { slots }),
    ...(pool === undefined ? {} : { pool: withoutUndefined(pool) }),
    ...(drainMs === undefined ? {} : { drainMs }),
  };
}

async function contents(path: string): Promise<unknown> {
  let json: string;
  try {
    json = await readFile(path, 'utf8');
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code === 'ENOENT' ? 'there is no such file' : String(error);
    throw wrong(path, `${reason}; name the configuration by --config`);
  }
  try {
    return JSON.parse(json);
  } catch (error) {
    throw wrong(path, `is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

function parse(path: string, value: unknown): z.output<typeof configSchema> {
  const parsed = configSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => {
    const key = issue.path.join('.');
    if (issue.code !== 'unrecognized_keys') return key === '' ? issue.message : `${key}: ${issue.message}`;
    return issue.keys.map((name) => `${key === '' ? name : `${key}.${name}`}: there is no such key`).join('; ');
  });
  throw wrong(path, problems.join('; '));
}

function providersOf(path: string, config: z.output<typeof configSchema>): AnyProvider[] {
  const { scripted, acp } = config.providers;
  const providers: AnyProvider[] = [];
  if (scripted !== undefined) providers.push(scriptedProvider(withoutUndefined(scripted)));
  if (acp !== undefined)
    try {
      providers.push(acpProvider(acp as AcpOptions));
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      throw wrong(path, error.message.replace(/^acpProvider: /, 'providers.acp.'));
    }
  return providers;
}

function wrong(path: string, problem: string): HoldfastError {
  return new HoldfastError('VALIDATION_ERROR', `${path}: ${problem}`);
}

function withoutUndefined<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}
