/** Executions that wait for a person without holding anything: what 1,000 of them cost a worker, and their way on. */
import { setTimeout as delay } from 'node:timers/promises';
import { WorkerProcess } from '../holdfast/processes.js';
import type { Bench } from '../support/bench.js';
import { type Measure, mb } from '../support/measure.js';
import { inLanes, now } from '../support/stats.js';

const LANES = 30;
const REST_MS = 5_000;
const MAX_BYTES = 100 * 2 ** 20;
const MAX_SECONDS = 60;

interface Waiting {
  readonly id: string;
  readonly actionId: string;
}

export const suspended: Measure = {
  name: 'suspended',
  about: 'executions suspended for an approval: slots, memory, and all answered',
  async run(bench) {
    const { suspended: count, quick } = bench.scale;
    // The worker of this process stands aside: whatever runs, runs in the one that is measured.
    await bench.stopWorker();
    const worker = await WorkerProcess.start(bench.server.address);
    try {
      const rest = quick ? 1_000 : REST_MS;
      await delay(rest);
      const idle = await worker.bytes();
      const waiting = await suspendAll(bench, count);
      await delay(rest);
      const more = (await worker.bytes()) - idle;
      const slots = await activitiesOf(bench, waiting);
      const { seconds, succeeded } = await answerAll(bench, waiting);
      const limit = `${MAX_SECONDS} s`;
      return {
        rows: [
          {
            measure: `activity slots held by ${count} suspended executions`,
            holdfast: String(slots),
            beside: '–',
            goal: '0',
            met: slots === 0,
          },
          {
            measure: `memory of a worker with ${count} suspended executions, default settings`,
            holdfast: `+${mb(more)}`,
            beside: `${mb(idle)} idle worker`,
            goal: `< ${mb(MAX_BYTES)} more`,
            met: more < MAX_BYTES,
          },
          {
            measure: `all ${count} answered and succeeded`,
            holdfast: `${seconds.toFixed(1)} s, ${succeeded} succeeded`,
            beside: '–',
            goal: `≤ ${limit}`,
            met: seconds <= MAX_SECONDS && succeeded === count,
          },
        ],
      };
    } finally {
      await worker.stop();
    }
  },
};

async function suspendAll(bench: Bench, count: number): Promise<Waiting[]> {
  const waiting: Waiting[] = [];
  await inLanes(count, LANES, async (_, lane) => {
    const id = await bench.submit({ kind: 'approve', suspend: true }, { lane });
    for await (const event of bench.client.events(id))
      if (event.type === 'action.required') {
        waiting.push({ id, actionId: event.data.id });
        break;
      }
  });
  return waiting;
}

/** How many activities of these executions the server still counts as scheduled or running. */
async function activitiesOf(bench: Bench, waiting: readonly Waiting[]): Promise<number> {
  let held = 0;
  await inLanes(waiting.length, LANES, async (i) => {
    const { raw } = await bench.handle(waiting[i]?.id ?? '').describe();
    held += raw.pendingActivities?.length ?? 0;
  });
  return held;
}

async function answerAll(bench: Bench, waiting: readonly Waiting[]): Promise<{ seconds: number; succeeded: number }> {
  let succeeded = 0;
  const from = now();
  await inLanes(waiting.length, LANES, async (i) => {
    const { id, actionId } = waiting[i] ?? { id: '', actionId: '' };
    await bench.client.respond(id, actionId, { approved: true });
    const { state } = await bench.client.waitForTerminal(id, { timeoutMs: 2 * MAX_SECONDS * 1_000 });
    if (state === 'succeeded') succeeded += 1;
  });
  return { seconds: (now() - from) / 1_000, succeeded };
}
