/** Makes a cluster’s namespace ready for Holdfast. Doing it again changes nothing. */
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type Connection } from '@temporalio/client';
import { translate } from '../client/translate.js';
import { missingSearchAttributes, registerSearchAttributes, SEARCH_ATTRIBUTES } from '../dev/search-attributes.js';
import { HoldfastError } from '../protocol/errors.js';
import { checkNamespace } from '../worker/announce.js';
import { type ClusterName, connectTo } from './cluster.js';

/** Clusters with a search engine of their own take some seconds. */
const SHOWN_MS = 30_000;

/**
 * Registers what is missing of the search attributes and says so, a line at a time.
 *
 * @throws HoldfastError `RUNTIME_UNAVAILABLE`: no server, no such namespace, no permission, or a name is taken with
 * another type
 */
export async function setUp(cluster: ClusterName, say: (line: string) => void): Promise<void> {
  const { address, namespace } = cluster;
  const connection = await connectTo(cluster);
  const place = `namespace ${namespace} at ${address}`;
  try {
    const missing = await missingSearchAttributes(connection, namespace);
    if (missing.length === 0) say(`${place}: has ${SEARCH_ATTRIBUTES.join(', ')} already; nothing to do`);
    else {
      await registerSearchAttributes(connection, namespace);
      await shown(connection, namespace, place);
      say(`${place}: registered the search attribute${missing.length > 1 ? 's' : ''} ${missing.join(', ')}`);
    }
    await checkNamespace(new Client({ connection, namespace }), namespace, (_, message) => say(`note: ${message}`));
  } catch (error) {
    throw error instanceof HoldfastError ? error : translate(error, place);
  } finally {
    await connection.close();
  }
}

async function shown(connection: Connection, namespace: string, place: string): Promise<void> {
  for (const until = Date.now() + SHOWN_MS; ; await delay(200)) {
    const missing = await missingSearchAttributes(connection, namespace);
    if (missing.length === 0) return;
    if (Date.now() > until)
      throw new HoldfastError(
        'RUNTIME_UNAVAILABLE',
        `${place}: took the search attributes but does not show ${missing.join(', ')} yet; run it again`,
      );
  }
}
