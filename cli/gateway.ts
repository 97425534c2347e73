/** The gateway as `serve` and `dev` start it: its clients, its tokens, and what flags, environment and file say of it. */
import { pino } from 'pino';
import type { HoldfastClient } from '../client/client.js';
import { parseApiTokens, type RunningGateway, serveGateway } from '../gateway/index.js';
import { HoldfastError } from '../protocol/errors.js';
import { withoutUndefined } from './config/worker-options.js';
import { clientOf, type Setting } from './session.js';

export interface GatewayFlags {
  readonly host?: string;
  readonly port?: number | undefined;
  readonly insecure?: boolean;
  readonly allowHost?: readonly string[];
  readonly origin?: readonly string[];
  readonly accessLog?: boolean;
}

export interface OpenGateway {
  readonly gateway: RunningGateway;
  /** Ends the gateway, then its clients. Called again, it does so at once. */
  close(): Promise<void>;
}

/** @throws HoldfastError `VALIDATION_ERROR` that names what makes no sense; `RUNTIME_UNAVAILABLE` */
export async function openGateway(
  setting: Setting,
  flags: GatewayFlags,
  { handleSignals }: { readonly handleSignals: boolean },
  env = process.env,
): Promise<OpenGateway> {
  const file = withoutUndefined(setting.file.config.gateway ?? {});
  const tokens = parseApiTokens(env.HOLDFAST_API_TOKENS ?? '');
  const clients = new Clients(setting);
  // So that a server that is not there is said at the start, not at the first request.
  await clients.of(setting.tenant);
  try {
    const { hostname = '127.0.0.1', port, ...limits } = file;
    const chosenPort = flags.port ?? portOf(env.HOLDFAST_PORT) ?? port;
    const hosts = flags.allowHost ?? limits.hosts;
    const origins = flags.origin ?? limits.origins;
    const gateway = await serveGateway({
      ...limits,
      ...(hosts === undefined ? {} : { hosts }),
      ...(origins === undefined ? {} : { origins }),
      // Nobody is known by a token: everybody is of the one tenant.
      ...(tokens.length === 0
        ? { client: await clients.of(setting.tenant) }
        : { tokens, defaultTenant: setting.tenant, clientFor: (tenant: string) => clients.of(tenant) }),
      ...(env.HOLDFAST_READ_TOKEN_SECRET ? { readTokenSecret: env.HOLDFAST_READ_TOKEN_SECRET } : {}),
      hostname: flags.host ?? (env.HOLDFAST_HOST || hostname),
      ...(chosenPort === undefined ? {} : { port: chosenPort }),
      insecure: flags.insecure === true,
      handleSignals,
      ...(flags.accessLog ? { logger: pino(pino.destination(2)) } : {}),
    });
    const close = async (): Promise<void> => {
      await gateway.close();
      await clients.close();
    };
    return { gateway, close };
  } catch (error) {
    await clients.close();
    throw error;
  }
}

/** One client for each tenant that a token names, made when it is first asked for. */
class Clients {
  private readonly made = new Map<string, Promise<HoldfastClient>>();

  constructor(private readonly setting: Setting) {}

  async of(tenant: string): Promise<HoldfastClient> {
    const made = this.made.get(tenant) ?? clientOf(this.setting, tenant);
    this.made.set(tenant, made);
    // One that could not be made is made anew for whoever asks next.
    made.catch(() => this.made.delete(tenant));
    return await made;
  }

  async close(): Promise<void> {
    await Promise.all([...this.made.values()].map(async (made) => (await made.catch(() => undefined))?.close()));
  }
}

function portOf(text: string | undefined): number | undefined {
  if (!text) return undefined;
  const port = Number(text);
  if (/^\d+$/.test(text) && port <= 65_535) return port;
  throw new HoldfastError('VALIDATION_ERROR', 'HOLDFAST_PORT: must be a whole number from 0 to 65535');
}
