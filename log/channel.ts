/** How every connection of ours treats a server that is away or busy. */
import { type ConnectionOptions, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client';
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

/** Options for `Connection.connect`: quick reconnects, and retries that neither wait a second nor hide a limit. */
export function connectionOptions(): Pick<ConnectionOptions, 'channelArgs' | 'interceptors'> {
  const { delayFunction, retryableDecider } = defaultGrpcRetryOptions({
    initialIntervalMs: (status) => (status.code === GRPC.RESOURCE_EXHAUSTED && !BUSY.test(status.details) ? 100 : 20),
    maxIntervalMs: () => 1_000,
  });
  const retry = makeGrpcRetryInterceptor({
    delayFunction,
    // The SDK would retry a refused long poll ten times, and nobody would ever learn of the limit.
    retryableDecider: (attempt, status) =>
      retryableDecider(attempt, status) &&
      (status.code !== GRPC.RESOURCE_EXHAUSTED || BUSY.test(status.details) || attempt < MAX_THROTTLED_TRIES),
  });
  return { channelArgs: CHANNEL_ARGS, interceptors: [retry] };
}
