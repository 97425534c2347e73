/** A gateway with default settings. Tells where it listens, and its memory when asked. */
import { HoldfastClient } from '../../client/client.js';
import { serveGateway } from '../../gateway/index.js';

const [address = ''] = process.argv.slice(2);
const client = await HoldfastClient.connect({ address });
const gateway = await serveGateway({ client, port: 0 });
process.on('message', () => process.send?.(process.memoryUsage.rss()));
process.on('disconnect', () => process.exit(1));
process.send?.(gateway.url);
await gateway.closed;
await client.close();
process.exit(0);
