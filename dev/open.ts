/** The Temporal server that a command uses: the cluster that the environment names, else a dev server of our own. */
import { type DevServerOptions, startDevServer } from './server.js';

export interface OpenedServer {
  /** `host:port` of the gRPC frontend. */
  address: string;
  namespace: string;
  /** It was there before us and stays when we go. */
  external: boolean;
  /** One line for people: which server this is. */
  description: string;
  uiUrl?: string;
  /** Ends a server of our own; leaves any other alone. */
  stop(): Promise<void>;
}

/**
 * Takes the cluster at `TEMPORAL_ADDRESS`, in `TEMPORAL_NAMESPACE` (default `default`), without connecting to it; or
 * starts a dev server with these options. Says which by `onProgress`.
 *
 * @throws what `startDevServer` throws
 */
export async function openServer(options: DevServerOptions = {}): Promise<OpenedServer> {
  const env = options.env ?? process.env;
  const opened = env.TEMPORAL_ADDRESS ? named(env.TEMPORAL_ADDRESS, env.TEMPORAL_NAMESPACE) : await own(options);
  options.onProgress?.(opened.description);
  return opened;
}

function named(address: string, namespace = 'default'): OpenedServer {
  return {
    address,
    namespace,
    external: true,
    description: `using the Temporal cluster at ${address}, namespace ${namespace} (TEMPORAL_ADDRESS is set)`,
    stop: async () => {},
  };
}

async function own(options: DevServerOptions): Promise<OpenedServer> {
  const server = await startDevServer(options);
  const state = options.dbFile === undefined ? 'in memory' : `in ${options.dbFile}`;
  const ui = server.uiUrl === undefined ? '' : `, UI ${server.uiUrl}`;
  return {
    address: server.address,
    namespace: server.namespace,
    external: false,
    description: `started a Temporal dev server on ${server.address}, state ${state}${ui}`,
    ...(server.uiUrl === undefined ? {} : { uiUrl: server.uiUrl }),
    stop: () => server.stop(),
  };
}
