/** Reading a finished log again, with no worker, beside the query of the same log. */

import type { EventsPage } from '../../workflows/messages.js';
import { replayInProcess } from '../holdfast/processes.js';
import type { Bench } from '../support/bench.js';
import { type Measure, mb, ms } from '../support/measure.js';
import { median, timed } from '../support/stats.js';
import { longLog } from './long-log.js';

const QUERY_DEADLINE_MS = 30_000;
const MAX_REPLAY_MS = 2_000;
/** What a reader may add to its process, whatever the log's length: a few pages, and one run's events. */
const MAX_BYTES = 256 * 2 ** 20;

export const replay: Measure = {
  name: 'replay',
  about: 'replay of a finished log with no worker, and the query of the same log',
  async run(bench) {
    const { id, delays } = await longLog(bench);
    const queried = await query(bench, id);
    await bench.stopWorker();
    const replays = [];
    for (let round = 0; round < bench.scale.rounds; round++)
      replays.push(await replayInProcess(bench.server.address, id));
    for (const { events } of replays)
      if (events < delays.length) throw new Error(`a replay gave ${events} of ${delays.length} events`);
    const took = median(replays.map((each) => each.milliseconds));
    const memory = median(replays.map((each) => each.peakBytes - each.idleBytes));
    const beside = typeof queried === 'number' ? `${ms(queried)} query, with a worker` : queried;
    return {
      rows: [
        {
          measure: `replay of a finished log of ${replays[0]?.events} events, no worker`,
          holdfast: ms(took),
          beside,
          ...(typeof queried === 'number' ? { ratio: took / queried } : {}),
          goal: `≤ ${MAX_REPLAY_MS / 1_000} s`,
          met: took <= MAX_REPLAY_MS,
        },
        {
          measure: 'memory that the replay adds to its process, at its peak',
          holdfast: mb(memory),
          beside: `${mb(median(replays.map((each) => each.idleBytes)))} before it`,
          goal: `bounded (≤ ${mb(MAX_BYTES)})`,
          met: memory <= MAX_BYTES,
        },
      ],
    };
  },
};

/** Reads the log by the workflow's own query, page by page; milliseconds, or what went wrong. */
async function query(bench: Bench, id: string): Promise<number | string> {
  await bench.startWorker();
  const handle = bench.handle(id);
  const deadline = Date.now() + QUERY_DEADLINE_MS;
  try {
    return await timed(() =>
      bench.temporal.withDeadline(deadline, async () => {
        for (let after: number | undefined = 0; after !== undefined; )
          after = (await handle.query<EventsPage, [number, number]>('events', after, 10_000)).next;
      }),
    );
  } catch (error) {
    return `query failed within ${QUERY_DEADLINE_MS / 1_000} s (${String(error).slice(0, 60)})`;
  }
}
