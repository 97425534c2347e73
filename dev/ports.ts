import { createServer } from 'node:net';

/**
 * Ports below the range from which systems draw the source ports of outgoing connections. Inside that range a client
 * that keeps trying to reconnect while a server is restarted can be given the server's own port.
 */
const FIRST = 15_000;
const LAST = 32_000;
const TRIES = 100;

/** A TCP port on 127.0.0.1 that was free a moment ago; whoever binds it must still expect to find it taken. */
export async function freePort(): Promise<number> {
  for (let i = 0; i < TRIES; i++) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (await canListen(port)) return port;
  }
  throw new Error(`found no free port between ${FIRST} and ${LAST}`);
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen({ port, host: '127.0.0.1', exclusive: true }, () => server.close(() => resolve(true)));
  });
}
