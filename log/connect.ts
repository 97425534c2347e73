/** How we connect to a server that may be away or busy. */
import { setTimeout as delay } from 'node:timers/promises';
import {
  Connection,
  type ConnectionOptions,
  defaultGrpcRetryOptions,
  makeGrpcRetryInterceptor,
} from '@temporalio/client';
import { GRPC } from './grpc.js';

/**
 * grpc-js shares sockets and their back-off per address in a process: one client that keeps trying made every *new*
 * connection wait 26 s for a server that was up after 0.4 s. So each connection has its own, and tries often.
 */
const CHANNEL_ARGS = {
  'grpc.use_local_subchannel_pool': 1,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  // A page of history is counted in events, not in bytes: of large ones it takes far more than gRPC's own 4 MiB, and
  // could then never be read. A run is closed by the server at 50 MiB.
  'grpc.max_receive_message_length': 64 * 1024 * 1024,
} as const;

/** The server refuses a signal while a run that met new ones is about to close: a matter of milliseconds. */
const BUSY = /closing|busy/i;
const MAX_THROTTLED_TRIES = 4;

/**
 * Connects as every part of Holdfast does: quick reconnects, and retries that neither wait a second for a busy workflow
 * nor hide a limit. `close()` first waits for retries that are pending (1.2 s at most): one that fires on a closed
 * channel throws where nobody can catch it.
 */
export async function connect(options: ConnectionOptions): Promise<Connection> {
  const { delayFunction, retryableDecider } = defaultGrpcRetryOptions({
    initialIntervalMs: (status) => (status.code === GRPC.RESOURCE_EXHAUSTED && !BUSY.test(status.details) ? 100 : 20),
    maxIntervalMs: () => 1_000,
  });
  let closing = false;
  let pendingUntil = 0;
  const retry = makeGrpcRetryInterceptor({
    delayFunction: (attempt, status) => {
      const ms = delayFunction(attempt, status);
      pendingUntil = Math.max(pendingUntil, performance.now() + ms);
      return ms;
    },
    // The SDK would retry a refused long poll ten times, and nobody would ever learn of the limit.
    retryableDecider: (attempt, status) =>
      !closing &&
      retryableDecider(attempt, status) &&
      (status.code !== GRPC.RESOURCE_EXHAUSTED || BUSY.test(status.details) || attempt < MAX_THROTTLED_TRIES),
  });
  const connection = await Connection.connect({ ...options, channelArgs: CHANNEL_ARGS, interceptors: [retry] });
  const close = connection.close.bind(connection);
  connection.close = async () => {
    closing = true;
    for (let left = pendingUntil - performance.now(); left > 0; left = pendingUntil - performance.now())
      await delay(left + 5);
    await close();
  };
  return connection;
}
