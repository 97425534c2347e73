import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { HoldfastClient } from '../../client/client.js';
import { decoder } from '../../log/decode.js';
import { HistoryReader } from '../../log/history.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import { Cluster } from '../support/cluster.js';

let cluster: Cluster;
/** Waits for an answer all along. */
let id: string;
let actionId: string;
let last: number;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker();
  id = (await cluster.run([{ say: 'before ' }, { approve: { title: 'ok?' } }, { say: ' after' }])).id;
  ({ id: actionId, sequence: last } = await cluster.action(id));
});

afterAll(async () => {
  await cluster.client.respond(id, actionId, { approved: true });
  await cluster.client.waitForTerminal(id);
  await cluster.stopCompared();
});

/** Nothing followed, nothing polled, within 2 s. */
async function nothingIsLeft(client: HoldfastClient): Promise<void> {
  await expect.poll(() => client.load, { timeout: 2_000, interval: 20 }).toMatchObject({ followed: 0, polls: 0 });
}

function sockets(): number {
  return process.getActiveResourcesInfo().filter((kind) => kind === 'TCPSocketWrap').length;
}

const TIMES = 200;

describe('leaving an iterator early leaves nothing behind', () => {
  const ways: Record<string, (client: HoldfastClient) => Promise<void>> = {
    break: async (client) => {
      for await (const _ of client.events(id)) break;
    },
    throw: async (client) => {
      const thrown = (async () => {
        for await (const _ of client.events(id)) throw new RangeError('enough');
      })();
      await expect(thrown).rejects.toThrow(RangeError);
    },
    'return() while next() waits': async (client) => {
      const events = client.events(id);
      for (let i = 0; i < last; i++) await events.next();
      const next = events.next();
      const returned = events.return?.();
      expect(await next).toEqual({ done: true, value: undefined });
      await returned;
    },
    'throw() while the cursor is being checked': async (client) => {
      const events = client.events(id, { after: last });
      const next = events.next();
      await expect(events.throw?.(new RangeError('enough'))).rejects.toThrow(RangeError);
      expect(await next).toEqual({ done: true, value: undefined });
    },
    'an abort while next() waits': async (client) => {
      const abort = new AbortController();
      const events = client.events(id, { signal: abort.signal });
      for (let i = 0; i < last; i++) await events.next();
      const next = events.next();
      abort.abort();
      expect(await next).toEqual({ done: true, value: undefined });
    },
    'an abort with nobody waiting': async (client) => {
      const abort = new AbortController();
      await client.events(id, { signal: abort.signal }).next();
      abort.abort();
    },
    'a wait that gives up': async (client) => {
      await client.waitForTerminal(id, { timeoutMs: 0 }).catch(() => undefined);
    },
    'an iterator that is never read': async (client) => {
      client.events(id);
    },
  };

  it.each(Object.keys(ways))(`by %s, ${TIMES} times`, async (way) => {
    const client = await HoldfastClient.connect({ address: cluster.server.address });
    await ways[way]!(client);
    await nothingIsLeft(client);
    const before = sockets();
    for (let round = 0; round < TIMES / 10; round++)
      await Promise.all(Array.from({ length: 10 }, () => ways[way]!(client)));
    await nothingIsLeft(client);
    await expect.poll(sockets, { timeout: 5_000, interval: 20 }).toBeLessThanOrEqual(before);
    await client.close();
  });

  it('and nothing more comes out of one that was left', async () => {
    const abort = new AbortController();
    const leave: ((events: AsyncIterableIterator<HoldfastEvent>) => unknown)[] = [
      (events) => events.return?.(),
      () => abort.abort(),
    ];
    for (const how of leave) {
      const events = cluster.client.events(id, { signal: abort.signal });
      expect((await events.next()).value).toMatchObject({ sequence: 1 });
      // The rest of the log is here already, but nobody wants it any more.
      await how(events);
      expect(await events.next()).toEqual({ done: true, value: undefined });
    }
    const never = cluster.client.events(id, { signal: AbortSignal.abort() });
    expect(await never.next()).toEqual({ done: true, value: undefined });
    await nothingIsLeft(cluster.client);
  });

  it('so that a script which left ends by itself', async () => {
    const script = fileURLToPath(new URL('./fixtures/leaving.ts', import.meta.url));
    const child = spawn(process.execPath, ['--import', 'tsx', script, cluster.server.address, id], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let left = Number.NaN;
    let said = '';
    child.stdout.on('data', (chunk: Buffer) => {
      said += chunk.toString();
      left = performance.now();
    });
    const overdue = setTimeout(() => child.kill('SIGKILL'), 30_000);
    const [code, signal] = await once(child, 'exit');
    clearTimeout(overdue);
    expect({ code, signal }).toEqual({ code: 0, signal: null });
    expect(JSON.parse(said)).toMatchObject({ followed: 0, polls: 0 });
    // A connection that is kept would hold it for ever.
    expect(performance.now() - left).toBeLessThan(5_000);
  });
});

describe('followers are scarce', () => {
  it('a reader that makes many calls leaves no listener on its signal behind', async () => {
    const { signal } = new AbortController();
    let added = 0;
    let removed = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      added += 1;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      removed += 1;
      remove(...args);
    };
    const { temporal } = cluster;
    const history = new HistoryReader(temporal, temporal.options.namespace, decoder());
    for (let i = 0; i < 20; i++) await history.page({ workflowId: `default.${id}`, signal });
    expect(added).toBeGreaterThanOrEqual(20);
    expect(removed).toBe(added);
  });

  it('500 subscribers of one execution share one poll, and all get the whole log', async () => {
    const { id: shared } = await cluster.run([{ approve: { title: 'ok?' } }, { say: 'x' }]);
    const action = await cluster.action(shared);
    const client = await cluster.anotherClient();
    const abort = new AbortController();
    const logs = Array.from({ length: 500 }, async (_, i) => {
      const log: HoldfastEvent[] = [];
      // Some join from the middle, some share a signal.
      const options = { after: i % 3 === 0 ? 1 : 0, ...(i % 2 === 0 ? { signal: abort.signal } : {}) };
      for await (const event of client.events(shared, options)) log.push(event);
      return i % 3 === 0 ? log : log.slice(1);
    });
    await expect.poll(() => client.load, { timeout: 10_000 }).toMatchObject({ followed: 1, polls: 1 });
    await client.respond(shared, action.id, { approved: true });
    const [first, ...others] = await Promise.all(logs);
    expect(first!.at(-1)?.type).toBe('run.completed');
    for (const log of others) expect(log).toEqual(first);
    await nothingIsLeft(client);
  });

  it('more executions than polls are followed all the same, with never more polls than are allowed', async () => {
    const client = await cluster.anotherClient({ maxLongPolls: 3 });
    const ids: string[] = [];
    for (let i = 0; i < 12; i++) ids.push((await cluster.run([{ ask: { title: `${i}?` } }, { say: '!' }])).id);
    const actions = await Promise.all(ids.map((each) => cluster.action(each)));
    let most = 0;
    const look = setInterval(() => {
      most = Math.max(most, client.load.polls);
    }, 5);
    const logs = ids.map(async (each) => {
      const log: HoldfastEvent[] = [];
      for await (const event of client.events(each)) log.push(event);
      return log;
    });
    await expect.poll(() => client.load, { timeout: 10_000 }).toMatchObject({ followed: 12, polls: 3 });
    // The last ones first: those that hold no poll.
    for (let i = 11; i >= 0; i--) await cluster.client.respond(ids[i]!, actions[i]!.id, { value: i });
    for (const [i, log] of (await Promise.all(logs)).entries()) {
      expect(log.at(-1)).toMatchObject({ type: 'run.completed', data: { finalOutput: `${i}!` } });
      expect(log.map((event) => event.sequence)).toEqual(log.map((_, at) => at + 1));
    }
    clearInterval(look);
    expect(most).toBe(3);
    await nothingIsLeft(client);
  });
});
