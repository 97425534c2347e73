/** Reads one log and tells how long that took and what memory. Arguments: address, execution id. */
import { HoldfastClient } from '../../client/client.js';
import { now } from '../support/stats.js';

const [address = '', executionId = ''] = process.argv.slice(2);
const client = await HoldfastClient.connect({ address });
const idleBytes = process.memoryUsage.rss();
const from = now();
let events = 0;
for await (const _ of client.events(executionId)) events += 1;
const milliseconds = now() - from;
// `maxRSS` counts in KiB.
const peakBytes = process.resourceUsage().maxRSS * 1024;
await client.close();
process.send?.({ events, milliseconds, idleBytes, peakBytes }, () => process.exit(0));
