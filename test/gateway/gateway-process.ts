/** A gateway in a process of its own, so that a test can measure and end it. Says `{"url":…}` once it listens. */
import { HoldfastClient } from '../../client/client.js';
import { serveGateway } from '../../gateway/index.js';

const { address, ...options } = JSON.parse(process.argv[2] ?? '{}') as { address: string; graceMs?: number };
const client = await HoldfastClient.connect({ address });
const gateway = await serveGateway({ client, port: 0, ...options });
process.stdout.write(`${JSON.stringify({ url: gateway.url })}\n`);
await gateway.closed;
await client.close();
process.stdout.write(`${JSON.stringify({ closed: true })}\n`);
