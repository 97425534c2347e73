/** The gateway as a server of its own: where it may listen, how long connections live, and how it ends. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, isIP, type Socket } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { HoldfastError } from '../protocol/errors.js';
import { appOf } from './app.js';
import type { Problem } from './problem.js';
import { PROBLEM_STATUS, problemResponse } from './problem.js';
import { type GatewayOptions, isLoopbackHost, type Settings, settingsOf } from './settings.js';

export interface ServeOptions extends GatewayOptions {
  /**
   * Default `127.0.0.1`. Any address that is not of this machine alone takes `tokens`, or `insecure`. Which Host headers
   * are taken, besides `hosts`: on this machine its own names; elsewhere with tokens any unless `hosts` has some, and
   * without tokens addresses alone: a web page can have a name of its own lead here, but not an address.
   */
  readonly hostname?: string;
  /** Default 4310; 0 for any that is free. */
  readonly port?: number;
  /** Listen on any address without tokens: whoever reaches it may do everything. */
  readonly insecure?: boolean;
  /** Close on SIGTERM and SIGINT; a second one does it at once. Default true. */
  readonly handleSignals?: boolean;
  /** How long `close` waits for requests under way, in milliseconds. Default 10,000. */
  readonly graceMs?: number;
}

export interface RunningGateway {
  /** Where it listens, such as `http://127.0.0.1:4310`. */
  readonly url: string;
  /** Streams open at this moment. */
  readonly streams: number;
  /**
   * Ends it: no new connections, streams end with a hint when to come back, requests that wait are answered, the others
   * have `graceMs`. Called again, it cuts everything off at once. The clients stay open: they are not ours.
   */
  close(graceMs?: number): Promise<void>;
  /** Resolves when it has ended, however that came. */
  readonly closed: Promise<void>;
}

const DEFAULT_PORT = 4310;
const DEFAULT_GRACE_MS = 10_000;
/** Longer than load balancers keep a connection (60 s), so that they never use one that we just closed. */
const KEEP_ALIVE_MS = 75_000;
const IDLE_CHECK_MS = 50;

/**
 * Starts listening.
 *
 * @throws HoldfastError `VALIDATION_ERROR` for options that make no sense, an address without tokens, or one that is
 * taken.
 */
export async function serveGateway(options: ServeOptions): Promise<RunningGateway> {
  const { hostname = '127.0.0.1', port = DEFAULT_PORT, tokens = [], insecure = false } = options;
  const isLoopback = isLoopbackAddress(hostname);
  if (!isLoopback && tokens.length === 0 && !insecure)
    throw new HoldfastError(
      'VALIDATION_ERROR',
      `${hostname} can be reached from elsewhere: set HOLDFAST_API_TOKENS (or tokens), or say insecure`,
    );
  const settings = settingsOf(options, ownHosts(hostname, isLoopback, tokens.length > 0));
  const app = appOf(settings);
  const listener = getRequestListener(app.fetch, {
    hostname: inUrl(hostname),
    overrideGlobalObjects: false,
    errorHandler: () => problemResponse({ code: 'VALIDATION_ERROR', message: 'this request cannot be read' }),
  });
  const server = createServer((request: IncomingMessage, response: ServerResponse) => void listener(request, response));
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  server.on('clientError', refuseBroken);
  await listen(server, hostname, port);
  server.on('error', (error) => settings.logger?.error({ error: error.message }, 'the server has a problem'));
  const url = `http://${inUrl(hostname)}:${(server.address() as AddressInfo).port}`;
  return running(server, settings, url, options);
}

function running(server: Server, settings: Settings, url: string, options: ServeOptions): RunningGateway {
  let ending: Promise<void> | undefined;
  const closed = new Promise<void>((resolve) => server.once('close', resolve));
  const close = (graceMs = options.graceMs ?? DEFAULT_GRACE_MS): Promise<void> => {
    if (ending === undefined) ending = end(server, settings, graceMs, closed);
    else server.closeAllConnections();
    return ending;
  };
  if (options.handleSignals !== false) {
    const onSignal = (): void => void close();
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      process.on(signal, onSignal);
      void closed.then(() => process.off(signal, onSignal));
    }
  }
  return {
    url,
    get streams() {
      return settings.streams.size;
    },
    close,
    closed,
  };
}

async function end(server: Server, settings: Settings, graceMs: number, closed: Promise<void>): Promise<void> {
  settings.closing.abort();
  settings.streams.close();
  server.close();
  // Connections fall idle one by one, each when its last answer is out.
  const idle = setInterval(() => server.closeIdleConnections(), IDLE_CHECK_MS);
  const late = setTimeout(() => server.closeAllConnections(), graceMs);
  await closed;
  clearInterval(idle);
  clearTimeout(late);
}

async function listen(server: Server, hostname: string, port: number): Promise<void> {
  try {
    server.listen(port, hostname);
    await once(server, 'listening');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'EADDRINUSE' ? 'is in use already; choose another port' : `cannot be used: ${code}`;
    throw new HoldfastError('VALIDATION_ERROR', `${hostname}:${port} ${why}`, { cause: error });
  }
}

/** What Node could not read as HTTP at all. */
function refuseBroken(error: NodeJS.ErrnoException, socket: Socket): void {
  if (!socket.writable || error.code === 'ECONNRESET') {
    socket.destroy();
    return;
  }
  const tooLarge = error.code === 'HPE_HEADER_OVERFLOW';
  const problem: Problem = tooLarge
    ? { code: 'PAYLOAD_TOO_LARGE', message: 'the address and the headers take more than 16 KiB' }
    : { code: 'VALIDATION_ERROR', message: 'this is not HTTP as it is spoken here' };
  const body = JSON.stringify(problem);
  const status = `${PROBLEM_STATUS[problem.code]} ${tooLarge ? 'Payload Too Large' : 'Bad Request'}`;
  const head = `HTTP/1.1 ${status}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`;
  socket.end(`${head}Connection: close\r\n\r\n${body}`);
}

/** The Host headers that are taken without being named, or undefined where that is left to `hosts`. */
function ownHosts(hostname: string, isLoopback: boolean, hasTokens: boolean): ((host: string) => boolean) | undefined {
  const isOwn = (host: string): boolean => isLoopbackHost(host) || host === inUrl(hostname).toLowerCase();
  if (isLoopback) return isOwn;
  if (hasTokens) return undefined;
  return (host) => isOwn(host) || isIP(host.replace(/^\[(.*)\]$/, '$1')) !== 0;
}

function isLoopbackAddress(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '::1' || /^127(\.\d{1,3}){3}$/.test(hostname);
}

function inUrl(hostname: string): string {
  return hostname.includes(':') ? `[${hostname}]` : hostname;
}
