/**
 * Follows many executions from a process of its own. Its argument is the server's address; orders come on standard
 * input, one JSON text a line: `{"follow":[ids]}` and `{"leave":true}`. It says `{"up":n}` when each of them was
 * read once, `{"left":true}` when nothing is followed any more, and `{"ended":…}` when all logs ended.
 */
import { writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { HoldfastClient } from '../../client/client.js';
import { isTerminalEvent } from '../../protocol/event.js';

export interface Ended {
  readonly completed: number;
  readonly events: number;
  /** Logs with a gap, a repetition, another end, or an error; why, at most ten of them. */
  readonly bad: readonly string[];
  readonly throttled: number;
  readonly mostPolls: number;
}

const say = (line: object): void => {
  writeSync(1, `${JSON.stringify(line)}\n`);
};

let throttled = 0;
const client = await HoldfastClient.connect({
  address: process.argv[2] ?? '',
  onThrottled: (count) => {
    throttled = count;
  },
});
let leaving = new AbortController();

async function follow(ids: readonly string[]): Promise<void> {
  let up = 0;
  let completed = 0;
  let events = 0;
  let mostPolls = 0;
  const bad: string[] = [];
  const { signal } = leaving;
  const look = setInterval(() => {
    mostPolls = Math.max(mostPolls, client.load.polls);
  }, 20);
  const one = async (id: string): Promise<void> => {
    let last = 0;
    let end = 'none';
    for await (const event of client.events(id, { signal })) {
      if (last === 0 && ++up === ids.length) say({ up });
      if (event.sequence !== last + 1) bad.push(`${id}: ${event.sequence} after ${last}`);
      last = event.sequence;
      events += 1;
      if (isTerminalEvent(event)) end = event.type;
    }
    if (end === 'run.completed') completed += 1;
    else if (!signal.aborted) bad.push(`${id}: ended with ${end}`);
  };
  await Promise.all(ids.map((id) => one(id).catch((error) => bad.push(`${id}: ${String(error)}`))));
  clearInterval(look);
  if (signal.aborted) say({ left: true });
  else say({ ended: { completed, events, bad: bad.slice(0, 10), throttled, mostPolls } satisfies Ended });
}

const orders = createInterface({ input: process.stdin });
orders.on('line', (line) => {
  const order = JSON.parse(line) as { follow?: string[]; leave?: true };
  if (order.follow !== undefined) void follow(order.follow);
  if (order.leave) {
    leaving.abort();
    leaving = new AbortController();
  }
});
say({ ready: true });
