/** Which Temporal cluster a command talks to, and how: flags, Temporal's own environment and profiles, our file. */
import type { Connection } from '@temporalio/client';
import { type ClientConfigProfile, loadClientConfigProfile, toClientOptions } from '@temporalio/envconfig';
import type { ClientOptions } from '../client/options.js';
import { connect } from '../log/connect.js';
import { grpcMessage } from '../log/grpc.js';
import { HoldfastError } from '../protocol/errors.js';

const CONNECT_MS = 5_000;

export interface ClusterName {
  readonly address: string;
  readonly namespace: string;
  /** TLS, API key and metadata, from TEMPORAL_* and profiles. */
  readonly connection?: NonNullable<ClientOptions['connection']>;
}

export interface ClusterFlags {
  readonly address?: string;
  readonly namespace?: string;
  /** A profile of Temporal's TOML file. */
  readonly profile?: string;
}

/**
 * The command line says it, else the environment (TEMPORAL_*, and a TOML profile that was chosen), else our own
 * configuration file, else Temporal's default profile, else it is the local default. A flag or a file that names a cluster
 * takes nothing from the default profile: its key is for another one.
 *
 * @throws HoldfastError `VALIDATION_ERROR` for a profile that is not there or cannot be read
 */
export function clusterOf(flags: ClusterFlags, file: ClusterFlags = {}, env = process.env): ClusterName {
  const chosen = flags.profile ?? env.TEMPORAL_PROFILE ?? env.TEMPORAL_CONFIG_FILE;
  const byAddress = chosen === undefined && (flags.address ?? file.address) !== undefined;
  const profile = profileOf(flags.profile, byAddress, env);
  const namespace = (chosen === undefined && !env.TEMPORAL_NAMESPACE && file.namespace) || profile.namespace;
  const { connectionOptions } = toClientOptions(profile);
  const { tls, apiKey, metadata } = connectionOptions as NonNullable<ClientOptions['connection']>;
  const connection = {
    ...(tls === undefined ? {} : { tls }),
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(metadata === undefined || Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
  return {
    address: flags.address || profile.address || file.address || 'localhost:7233',
    namespace: flags.namespace || namespace || file.namespace || 'default',
    ...(Object.keys(connection).length === 0 ? {} : { connection }),
  };
}

function profileOf(name: string | undefined, disableFile: boolean, env: NodeJS.ProcessEnv): ClientConfigProfile {
  // An empty variable is as good as none.
  const set = Object.entries(env).filter((entry): entry is [string, string] => Boolean(entry[1]));
  try {
    return loadClientConfigProfile({
      ...(name === undefined ? {} : { profile: name }),
      disableFile,
      overrideEnvVars: Object.fromEntries(set),
    });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new HoldfastError('VALIDATION_ERROR', `Temporal's configuration: ${why}`, { cause: error });
  }
}

/** @throws HoldfastError `RUNTIME_UNAVAILABLE` when nothing answers there */
export async function connectTo({ address, connection }: Omit<ClusterName, 'namespace'>): Promise<Connection> {
  try {
    return await connect({ address, connectTimeout: CONNECT_MS, ...connection });
  } catch (error) {
    const message = `no Temporal server answers at ${address}: ${grpcMessage(error)}`;
    throw new HoldfastError('RUNTIME_UNAVAILABLE', message, { cause: error });
  }
}
