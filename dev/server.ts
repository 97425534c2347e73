/**
 * A Temporal server for development and tests: `temporal server start-dev` as a child process of ours.
 *
 * It is spawned by us and not by the SDK, so that it can have a database file and a fixed port, and so that a test can
 * kill it with SIGKILL and start it again over the same state.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Connection } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { claimDatabase } from './database.js';
import { guard } from './guard.js';
import { freePort } from './ports.js';
import { type ResolveOptions, resolveTemporalCli } from './resolve.js';
import { OutputTail } from './run.js';
import { missingSearchAttributes, SEARCH_ATTRIBUTES } from './search-attributes.js';

export interface DevServerOptions extends Pick<ResolveOptions, 'onProgress' | 'env'> {
  /** SQLite file that keeps the state across restarts, made when it does not exist. In memory by default. */
  dbFile?: string;
  /** Serve the Temporal UI too. Default false. */
  ui?: boolean;
  /** Port of the server on 127.0.0.1. A random free one by default. */
  port?: number;
  /** Port of the UI. A random free one by default. */
  uiPort?: number;
  /** Made when it does not exist. Default `default`. */
  namespace?: string;
  /** Days for which closed workflows are kept. Default 30; the dev server's own is 1. */
  retentionDays?: number;
  /** Added to ours; a value of the same name wins over ours. */
  dynamicConfig?: Record<string, string | number | boolean>;
  /** Search attributes beside Holdfast's, by name. */
  searchAttributes?: Record<string, 'Keyword' | 'Text' | 'Int' | 'Double' | 'Bool' | 'Datetime' | 'KeywordList'>;
}

export interface DevServer {
  /** `host:port` of the gRPC frontend. */
  address: string;
  namespace: string;
  uiUrl?: string;
  pid: number;
  /** Ends the server in an orderly way, by force after two seconds (what it has acknowledged is in the database). Safe to call twice. */
  stop(): Promise<void>;
  /** Ends the server with SIGKILL, as a crash would. */
  kill(): Promise<void>;
}

/** Long polls that one frontend grants to a namespace: the default of 1,200 is shared by workers and followers. */
const DYNAMIC_CONFIG = { 'frontend.namespaceCount': 20_000 };
const START_TIMEOUT_MS = 30_000;
const STOP_TIMEOUT_MS = 2_000;
const PORT_TRIES = 5;
const DAY_SECONDS = 24 * 60 * 60;

/**
 * Starts a server and returns once it answers, has the namespace with that retention, and knows the search attributes.
 *
 * The server ends with this process, also when that is killed. It does not keep this process alive.
 *
 * @throws ResolveError without a Temporal CLI; Error with the end of the server's output when it does not come up
 *   within 30 s, when a given port is taken, or when another server has the database file open
 */
export async function startDevServer(options: DevServerOptions = {}): Promise<DevServer> {
  const { path } = await resolveTemporalCli(options);
  const dbFile = options.dbFile === undefined ? undefined : resolve(options.dbFile);
  if (dbFile) await mkdir(dirname(dbFile), { recursive: true });
  const claim = dbFile ? await claimDatabase(dbFile) : undefined;

  for (let tries = 1; ; tries++) {
    const port = options.port ?? (await freePort());
    const uiPort = options.ui ? (options.uiPort ?? (await freePort())) : undefined;
    try {
      return await launch(path, { ...options, port, uiPort, dbFile, claim });
    } catch (error) {
      const chosenByUs = options.port === undefined || (options.ui === true && options.uiPort === undefined);
      if (!(error instanceof PortTakenError && chosenByUs && tries < PORT_TRIES)) throw error;
    }
  }
}

class PortTakenError extends Error {}

interface Launch
  extends Pick<DevServerOptions, 'namespace' | 'retentionDays' | 'dynamicConfig' | 'searchAttributes' | 'env'> {
  port: number;
  uiPort: number | undefined;
  dbFile: string | undefined;
  claim: ((pid: number) => Promise<void>) | undefined;
}

async function launch(path: string, options: Launch): Promise<DevServer> {
  const { port, uiPort, namespace = 'default', retentionDays = 30 } = options;
  const address = `127.0.0.1:${port}`;
  // In a group of its own, so that Ctrl-C in a terminal lets us finish our work before the server goes.
  const child = spawn(path, serverArguments(options, namespace), {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    env: withoutTemporal(options.env ?? process.env),
  });
  const output = new OutputTail();
  child.stdout.on('data', (chunk: Buffer) => output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => output.push(chunk));
  const exited = new Promise<void>((resolve) => {
    child.once('exit', () => resolve());
    child.once('error', (error) => {
      output.push(error.message);
      resolve();
    });
  });
  guard(child);
  endWithProcess(child);

  const end = async (signal: NodeJS.Signals) => {
    child.ref();
    child.kill(signal);
    const force = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await exited;
    clearTimeout(force);
  };

  try {
    if (child.pid !== undefined) await options.claim?.(child.pid);
    await ready(child, output, exited, { address, port, namespace, retentionDays });
  } catch (error) {
    await end('SIGKILL');
    const reason = error instanceof Error ? error.message : String(error);
    const message = `the Temporal dev server on ${address} did not start: ${reason}\n${output.text}`;
    const taken = /address already in use/i.test(output.text);
    throw taken ? new PortTakenError(message, { cause: error }) : new Error(message, { cause: error });
  }
  child.unref();
  unref(child.stdout);
  unref(child.stderr);
  return {
    address,
    namespace,
    ...(uiPort === undefined ? {} : { uiUrl: `http://127.0.0.1:${uiPort}` }),
    pid: child.pid ?? 0,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
  };
}

/** Settings for Temporal clients, of a shell set up for some cluster, are none of the server's business. */
function withoutTemporal(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith('TEMPORAL_')));
}

function serverArguments(options: Launch, namespace: string): string[] {
  const args = ['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(options.port), '--log-level', 'warn'];
  if (options.uiPort === undefined) args.push('--headless');
  else args.push('--ui-port', String(options.uiPort));
  if (options.dbFile !== undefined) args.push('--db-filename', options.dbFile);
  if (namespace !== 'default') args.push('--namespace', namespace);
  for (const [key, value] of Object.entries({ ...DYNAMIC_CONFIG, ...options.dynamicConfig })) {
    args.push('--dynamic-config-value', `${key}=${JSON.stringify(value)}`);
  }
  const ours = Object.fromEntries(SEARCH_ATTRIBUTES.map((name) => [name, 'Keyword']));
  for (const [name, type] of Object.entries({ ...options.searchAttributes, ...ours })) {
    args.push('--search-attribute', `${name}=${type}`);
  }
  return args;
}

interface Expected {
  address: string;
  port: number;
  namespace: string;
  retentionDays: number;
}

/** Waits until the server is as promised. Its own line about the port proves that it is not a stranger who answers. */
async function ready(
  child: ChildProcess,
  output: OutputTail,
  exited: Promise<void>,
  expected: Expected,
): Promise<void> {
  const deadline = Date.now() + START_TIMEOUT_MS;
  const announced = new RegExp(`Server:\\s+\\S*:${expected.port}\\b`);
  let gone = false;
  void exited.then(() => {
    gone = true;
  });
  const attempt = async (what: string, step: () => Promise<boolean>): Promise<void> => {
    let last: unknown;
    while (Date.now() < deadline) {
      if (gone) throw new Error(`it ended (${child.signalCode ?? `exit code ${child.exitCode}`})`);
      try {
        if (await step()) return;
      } catch (error) {
        last = error;
      }
      await Promise.race([sleep(25), exited]);
    }
    throw new Error(`${what} took more than ${START_TIMEOUT_MS / 1000} s`, { cause: last });
  };

  await attempt('its start', async () => announced.test(output.text));
  let connection: Connection | undefined;
  await attempt('its first answer', async () => {
    connection = await Connection.connect({
      address: expected.address,
      connectTimeout: 2_000,
      // Else all channels of this process to one address share their back-off: a client that tried in vain while the
      // server was down keeps this one from connecting for as long (tried: 26 s).
      channelArgs: { 'grpc.use_local_subchannel_pool': 1 },
    });
    return true;
  });
  const connected = connection;
  if (!connected) throw new Error('no connection');
  try {
    await attempt('setting the retention', () => setRetention(connected, expected));
    await attempt('registering search attributes', async () => {
      return (await missingSearchAttributes(connected, expected.namespace)).length === 0;
    });
  } finally {
    await connected.close();
  }
}

/** Sets the retention; true once the namespace tells it. The database file keeps it, a restart sets nothing. */
async function setRetention(connection: Connection, { namespace, retentionDays }: Expected): Promise<boolean> {
  const wanted = retentionDays * DAY_SECONDS;
  const described = await connection.workflowService.describeNamespace({ namespace });
  if (described.config?.workflowExecutionRetentionTtl?.seconds?.toNumber() === wanted) return true;
  await connection.workflowService.updateNamespace({
    namespace,
    config: { workflowExecutionRetentionTtl: msToTs(wanted * 1000) },
  });
  return false;
}

/** Servers to end when this process exits by itself; the guard does it when it can't. */
const running = new Set<ChildProcess>();
let watchingExit = false;

function endWithProcess(child: ChildProcess): void {
  running.add(child);
  child.once('exit', () => running.delete(child));
  if (watchingExit) return;
  watchingExit = true;
  process.once('exit', () => {
    for (const server of running) server.kill('SIGTERM');
  });
}

function unref(stream: NodeJS.ReadableStream): void {
  if ('unref' in stream && typeof stream.unref === 'function') stream.unref();
}
