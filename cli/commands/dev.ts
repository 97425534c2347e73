/** `holdfast dev`: server, UI, worker and gateway in one process, until Ctrl-C. */
import { createServer } from 'node:net';
import { openServer } from '../../dev/open.js';
import { resolveTemporalCli } from '../../dev/resolve.js';
import { HoldfastError } from '../../protocol/errors.js';
import { createWorker } from '../../worker/worker.js';
import { readConfig } from '../config/read.js';
import { workerOptions } from '../config/worker-options.js';
import { type GatewayFlags, openGateway } from '../gateway.js';
import { Output } from '../output.js';
import { Screen } from '../screen.js';
import { type CommonFlags, type Setting, settingOf } from '../session.js';
import { Stage } from '../stage.js';
import { oneLine } from '../text.js';

export interface DevFlags extends CommonFlags, Omit<GatewayFlags, 'port'> {
  readonly port?: number;
  readonly uiPort?: number;
  readonly gatewayPort?: number;
  readonly db?: string;
}

const PORTS = { server: 7233, ui: 8233 } as const;

/** Ctrl-C is its good end: what runs is stopped and that is recorded, then the server goes. Twice means now. */
export async function dev(flags: DevFlags): Promise<undefined> {
  const out = new Output(flags.json === true);
  const screen = new Screen(flags.json ? process.stderr : process.stdout);
  const stage = new Stage(() => screen.say('\nStopping. Ctrl-C again ends everything at once.'));
  try {
    await start(flags, out, screen, stage);
    await stage.interrupted();
  } catch (error) {
    // Being told to stop is how it ends.
    if (!stage.signal.aborted) throw error;
  } finally {
    await stage.close();
  }
  out.tell({ type: 'stopped' });
  screen.say('Stopped.');
}

async function start(flags: DevFlags, out: Output, screen: Screen, stage: Stage): Promise<void> {
  const file = await readConfig(flags.config);
  const configured = file.config.dev ?? {};
  const port = flags.port ?? configured.port ?? PORTS.server;
  const uiPort = flags.uiPort ?? configured.uiPort ?? PORTS.ui;
  const dbFile = flags.db ?? configured.dbFile;
  screen.heading('Starting');
  if (!process.env.TEMPORAL_ADDRESS) {
    await checkFree([port, '--port'], [uiPort, '--ui-port']);
    const env = { ...process.env, TMPDIR: await stage.folder() };
    const onProgress = (line: string): void => {
      if (!stage.signal.aborted) screen.say(oneLine(line, 200));
    };
    await stage.download(resolveTemporalCli({ env, onProgress }));
  }
  const server = await stage.hold(
    openServer({
      ui: true,
      ...(port === 0 ? {} : { port }),
      ...(uiPort === 0 ? {} : { uiPort }),
      ...(dbFile === undefined ? {} : { dbFile }),
    }),
    (opened) => opened.stop(),
  );
  screen.say(server.description);
  const setting = server.external ? await settingOf(flags) : await ownSetting(flags, server.address, server.namespace);
  const options = workerOptions({
    ...file,
    config: { ...file.config, providers: file.config.providers ?? { scripted: {} } },
  });
  const worker = await stage.hold(
    createWorker({
      ...options,
      ...setting.cluster,
      handleSignals: false,
      log: (level, message) => {
        if (level === 'warn' || level === 'error') screen.quiet(`${level}: ${oneLine(message, 500)}`);
      },
    }),
    (running) => running.shutdown({ drainMs: 0 }),
  );
  const providers = options.providers.map(({ manifest }) => manifest.id);
  const opened = openGateway(setting, { ...flags, port: flags.gatewayPort }, { handleSignals: false });
  const { gateway } = await stage.hold(opened, (running) => running.close());
  // A worker that ends by itself leaves nothing that is worth staying up for.
  void worker.done.then(() => {
    if (!stage.signal.aborted) stage.interrupt();
  });

  const { address, namespace } = setting.cluster;
  const uiUrl = server.uiUrl ?? file.config.uiUrl;
  out.record({ type: 'ready', address, namespace, uiUrl, gatewayUrl: gateway.url, providers, pid: process.pid });
  if (out.json) return;
  screen.heading('Holdfast is up');
  screen.line(`Temporal    ${address}, namespace ${namespace}`);
  if (uiUrl !== undefined) screen.line(`UI          ${uiUrl}`);
  screen.line(`Gateway     ${gateway.url}   (${gateway.url}/docs)`);
  screen.line(
    `Providers   ${providers.join(', ')}${file.path === undefined ? '   (holdfast.config.ts names yours)' : ''}`,
  );
  screen.heading('In another terminal');
  if (address !== 'localhost:7233' && address !== '127.0.0.1:7233') screen.line(`export TEMPORAL_ADDRESS=${address}`);
  screen.line(`holdfast run "hello" --provider ${providers[0]}`);
  screen.say('\nCtrl-C ends it.');
}

/** Our own server is what is meant, whatever profiles and files say; keys for others are not for it. */
async function ownSetting(flags: DevFlags, address: string, namespace: string): Promise<Setting> {
  const setting = await settingOf(flags);
  return { ...setting, cluster: { address, namespace } };
}

/** Said by us, with the flag that helps, instead of by a server that does not start. */
async function checkFree(...wanted: readonly (readonly [port: number, flag: string])[]): Promise<void> {
  for (const [port, flag] of wanted)
    if (port !== 0 && !(await canListen(port)))
      throw new HoldfastError(
        'VALIDATION_ERROR',
        `127.0.0.1:${port} is in use already: is another "holdfast dev" running? Choose another by ${flag}, or 0 for any that is free`,
      );
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
