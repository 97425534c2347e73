/** What most commands begin with: the configuration, the cluster that it means, and a client of it. */
import { HoldfastClient } from '../client/client.js';
import { HoldfastError } from '../protocol/errors.js';
import { DEFAULT_TENANT, ID_PATTERN } from '../protocol/ids.js';
import { type ClusterFlags, type ClusterName, clusterOf } from './cluster.js';
import { type ConfigFile, readConfig } from './config/read.js';
import { Output } from './output.js';

/** The flags that all commands with a cluster have. */
export interface CommonFlags extends ClusterFlags {
  readonly config?: string;
  readonly tenant?: string;
  readonly json?: boolean;
}

export interface Setting {
  readonly file: ConfigFile;
  readonly cluster: ClusterName;
  readonly tenant: string;
}

/** Flags, then the environment, then the file. @throws HoldfastError `VALIDATION_ERROR` that names what is wrong */
export async function settingOf(flags: CommonFlags, env = process.env): Promise<Setting> {
  const file = await readConfig(flags.config, env);
  const { address, namespace } = file.config;
  const cluster = clusterOf(flags, {
    ...(address === undefined ? {} : { address }),
    ...(namespace === undefined ? {} : { namespace }),
  });
  const tenant = flags.tenant ?? (env.HOLDFAST_TENANT || undefined) ?? file.config.tenant ?? DEFAULT_TENANT;
  if (!ID_PATTERN.test(tenant))
    throw new HoldfastError('VALIDATION_ERROR', 'tenant: 1–128 characters of A–Z, a–z, 0–9, "_" and "-"');
  return { file, cluster, tenant };
}

/** @throws HoldfastError `RUNTIME_UNAVAILABLE` when nothing answers there */
export async function clientOf({ file, cluster }: Setting, tenant: string): Promise<HoldfastClient> {
  const { dataConverter } = file.config;
  return await HoldfastClient.connect({
    ...cluster,
    tenant,
    ...(dataConverter === undefined ? {} : { dataConverter }),
  });
}

export interface Session extends Setting {
  readonly client: HoldfastClient;
  readonly out: Output;
}

/** Runs `work` with a client that is closed afterwards. A reader of our output that goes away ends us quietly. */
export async function withSession(
  flags: CommonFlags,
  work: (session: Session) => Promise<number | undefined>,
): Promise<number | undefined> {
  process.stdout.on('error', leave);
  const setting = await settingOf(flags);
  const client = await clientOf(setting, setting.tenant);
  try {
    return await work({ ...setting, client, out: new Output(flags.json === true) });
  } finally {
    await client.close();
  }
}

/** As a program dies that writes into a closed pipe: 128 and the number of SIGPIPE. */
function leave(): never {
  process.exit(141);
}
