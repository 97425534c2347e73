/** Which Temporal cluster a command talks to. */
import type { Connection } from '@temporalio/client';
import { connect } from '../log/connect.js';
import { grpcMessage } from '../log/grpc.js';
import { HoldfastError } from '../protocol/errors.js';

const CONNECT_MS = 5_000;

export interface ClusterName {
  readonly address: string;
  readonly namespace: string;
}

export interface ClusterFlags {
  readonly address?: string;
  readonly namespace?: string;
}

/** The command line says it, else the environment, else the configuration file, else it is the local default. */
export function clusterOf(flags: ClusterFlags, file: ClusterFlags = {}, env = process.env): ClusterName {
  return {
    address: flags.address || env.TEMPORAL_ADDRESS || file.address || 'localhost:7233',
    namespace: flags.namespace || env.TEMPORAL_NAMESPACE || file.namespace || 'default',
  };
}

/** @throws HoldfastError `RUNTIME_UNAVAILABLE` when nothing answers there */
export async function connectTo(address: string): Promise<Connection> {
  try {
    return await connect({ address, connectTimeout: CONNECT_MS });
  } catch (error) {
    const message = `no Temporal server answers at ${address}: ${grpcMessage(error)}`;
    throw new HoldfastError('RUNTIME_UNAVAILABLE', message, { cause: error });
  }
}
