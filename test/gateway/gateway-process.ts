/**
 * A gateway in a process of its own, so that a test can measure and end it. Says `{"url":…}` once it listens, and with a
 * channel to its parent how many streams are open, whenever it is asked.
 */
import { HoldfastClient } from '../../client/client.js';
import { serveGateway } from '../../gateway/index.js';

const { address, ...options } = JSON.parse(process.argv[2] ?? '{}') as { address: string; graceMs?: number };
const client = await HoldfastClient.connect({ address });
const gateway = await serveGateway({ client, port: 0, ...options });
process.stdout.write(`${JSON.stringify({ url: gateway.url })}\n`);
process.on('message', () => process.send?.(gateway.streams));
await gateway.closed;
process.removeAllListeners('message');
await client.close();
process.stdout.write(`${JSON.stringify({ closed: true })}\n`);
