/** What a gateway is made of, checked once when it is made. */
import type { Logger } from 'pino';
import type { HoldfastClient } from '../client/client.js';
import { HoldfastError } from '../protocol/errors.js';
import { DEFAULT_TENANT } from '../protocol/ids.js';
import { ReadTokens } from './read-tokens.js';
import { Streams } from './streams.js';
import { type ApiToken, ApiTokens, checkApiToken } from './tokens.js';

/** What the gateway uses of a client. */
export type GatewayClient = Pick<
  HoldfastClient,
  | 'tenant'
  | 'readiness'
  | 'describeRuntime'
  | 'createConversation'
  | 'getConversation'
  | 'closeConversation'
  | 'startExecution'
  | 'getExecution'
  | 'listExecutions'
  | 'listPendingActions'
  | 'listEvents'
  | 'subscribe'
  | 'artifacts'
  | 'waitForTerminal'
  | 'respond'
  | 'cancel'
>;

export interface GatewayOptions {
  /** The client of the one tenant that this gateway serves. Either this or `clientFor`. */
  readonly client?: GatewayClient;
  /** The client of a tenant. Called for each request: give the same one again, since it shares its long polls. */
  readonly clientFor?: (tenant: string) => GatewayClient | Promise<GatewayClient>;
  /** Of tokens that name none, and of what is public. Default: the client's, or `default`. */
  readonly defaultTenant?: string;
  /** Who may call. Without any, everyone who reaches it. */
  readonly tokens?: readonly ApiToken[];
  /**
   * Names that a Host header may have, without the port. Default: any when there are tokens, else those of this machine
   * alone; of `serveGateway`, see there.
   */
  readonly hosts?: readonly string[] | 'any';
  /** Origins of web pages that may call from another site, such as `https://app.example`. Default none: CORS is off. */
  readonly origins?: readonly string[];
  /** Signs read tokens; gateways side by side need the same. At least 16 characters. Default: random, for this process. */
  readonly readTokenSecret?: string;
  /** The largest body, in bytes. Default 1 MiB. */
  readonly maxBodyBytes?: number;
  /** A quiet stream gets a comment this often, in milliseconds. Default 15,000. */
  readonly heartbeatMs?: number;
  /** A reader that takes nothing for so long is sent away, in milliseconds. Default 30,000. */
  readonly stallMs?: number;
  /** Streams open at once; one more is `QUOTA_EXCEEDED`. Default 10,000. */
  readonly maxStreams?: number;
  /** Where the access log goes: one line a request, without bodies, queries and credentials. Default: nowhere. */
  readonly logger?: Logger;
}

export interface Settings {
  readonly clientFor: (tenant: string) => GatewayClient | Promise<GatewayClient>;
  readonly defaultTenant: string;
  readonly tokens: ApiTokens | undefined;
  readonly readTokens: ReadTokens;
  /** Whether a request may call us so: the Host header in lower case, without its port. */
  readonly takesHost: (host: string) => boolean;
  readonly origins: ReadonlySet<string>;
  readonly maxBodyBytes: number;
  readonly streams: Streams;
  readonly logger: Logger | undefined;
  /** Aborts when the gateway is told to end: whoever waits goes away with what there is. */
  readonly closing: AbortController;
}

/** What `Host` says when a program on this machine calls; a name that was bound to this address by a stranger is not. */
const LOOPBACK_HOSTS: readonly string[] = ['localhost', '127.0.0.1', '[::1]'];

export function isLoopbackHost(host: string): boolean {
  return LOOPBACK_HOSTS.includes(host);
}

/**
 * @param own decides on Host headers by itself, besides the names in `hosts`
 * @throws HoldfastError `VALIDATION_ERROR` that names the option
 */
export function settingsOf(options: GatewayOptions, own?: (host: string) => boolean): Settings {
  const { client, clientFor, tokens = [], origins = [], readTokenSecret, logger } = options;
  if ((client === undefined) === (clientFor === undefined)) throw wrong('give either "client" or "clientFor"');
  tokens.forEach((token, index) => {
    checkApiToken(token, index + 1);
    if (client !== undefined && token.tenant !== undefined && token.tenant !== client.tenant)
      throw wrong(`API token ${index + 1} is for another tenant than the client; give "clientFor" instead`);
  });
  for (const origin of origins)
    if (!/^https?:\/\/[^/\s]+$/.test(origin))
      throw wrong('origins: each looks like https://app.example, without a path');
  if (readTokenSecret !== undefined && readTokenSecret.length < 16)
    throw wrong('readTokenSecret: takes at least 16 characters');
  const defaultTenant = client?.tenant ?? options.defaultTenant ?? DEFAULT_TENANT;
  if (options.defaultTenant !== undefined && options.defaultTenant !== defaultTenant)
    throw wrong("defaultTenant: is another than the client's");
  return {
    clientFor: clientFor ?? (() => client as GatewayClient),
    defaultTenant,
    tokens: tokens.length > 0 ? new ApiTokens(tokens, defaultTenant) : undefined,
    readTokens: new ReadTokens(readTokenSecret),
    takesHost: hostCheck(
      options.hosts,
      own ?? (tokens.length > 0 || options.hosts !== undefined ? undefined : isLoopbackHost),
    ),
    origins: new Set(origins.map((origin) => origin.toLowerCase())),
    maxBodyBytes: positive('maxBodyBytes', options.maxBodyBytes, 1024 * 1024),
    streams: new Streams({
      heartbeatMs: positive('heartbeatMs', options.heartbeatMs, 15_000),
      stallMs: positive('stallMs', options.stallMs, 30_000),
      maxStreams: positive('maxStreams', options.maxStreams, 10_000),
    }),
    logger,
    closing: new AbortController(),
  };
}

/** Any, where nothing is said of them. */
function hostCheck(hosts: GatewayOptions['hosts'], own?: (host: string) => boolean): (host: string) => boolean {
  if (hosts === 'any' || (hosts === undefined && own === undefined)) return () => true;
  const named = new Set((hosts ?? []).map((host) => host.toLowerCase()));
  return (host) => named.has(host) || own?.(host) === true;
}

function positive(name: string, value: number | undefined, standard: number): number {
  if (value === undefined) return standard;
  if (!Number.isSafeInteger(value) || value < 1) throw wrong(`${name}: must be a whole number, 1 or more`);
  return value;
}

function wrong(message: string): HoldfastError {
  return new HoldfastError('VALIDATION_ERROR', message);
}
