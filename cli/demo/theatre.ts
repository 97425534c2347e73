/** What both acts of the demo play on: a server and a client of it. */
import { HoldfastClient } from '../../client/client.js';
import { type OpenedServer, openServer } from '../../dev/open.js';
import { resolveTemporalCli } from '../../dev/resolve.js';
import { missingSearchAttributes } from '../../dev/search-attributes.js';
import { missingAttributes } from '../../worker/announce.js';
import { connectTo } from '../cluster.js';
import { confirm, hasTerminal } from '../question.js';
import { setUp } from '../register.js';
import type { Screen } from '../screen.js';
import type { Stage } from '../stage.js';
import { oneLine } from '../text.js';

export interface Theatre {
  readonly server: OpenedServer;
  readonly client: HoldfastClient;
}

/** Starts a server with its UI, or takes the cluster that TEMPORAL_ADDRESS names. It is released with the stage. */
export async function openTheatre(screen: Screen, stage: Stage): Promise<Theatre> {
  if (!process.env.TEMPORAL_ADDRESS) {
    // A download that is broken off leaves its temporary files in ours.
    const env = { ...process.env, TMPDIR: await stage.folder() };
    await stage.download(resolveTemporalCli({ env, onProgress: progress(screen, stage) }));
  }
  const server = await stage.hold(openServer({ ui: true }), (opened) => opened.stop());
  screen.say(server.description);
  if (server.external) await checkSetUp(server, screen, stage);
  const client = await stage.hold(HoldfastClient.connect(server), (connected) => connected.close());
  return { server, client };
}

/** Says how a download goes, as long as anybody wants it. */
export function progress(screen: Screen, stage: Stage): (line: string) => void {
  return (line) => {
    if (!stage.signal.aborted) screen.say(oneLine(line, 200));
  };
}

/** A cluster of somebody's: nothing is registered there without a yes. */
async function checkSetUp(server: OpenedServer, screen: Screen, stage: Stage): Promise<void> {
  const { address, namespace } = server;
  const connection = await connectTo({ address });
  const missing = await missingSearchAttributes(connection, namespace).finally(() => connection.close());
  if (missing.length === 0) return;
  screen.say(`Namespace ${namespace} lacks the search attributes ${missing.join(', ')}.`);
  const register = hasTerminal() && (await confirm('   Register them there?', stage.asking));
  if (!register) throw missingAttributes(missing, namespace);
  await setUp(server, (line) => screen.say(line));
}
