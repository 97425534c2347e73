/** What a caller waits for: the start call itself, and the first sign of the provider. */
import { startBare } from '../bare/start.js';
import type { Bench } from '../support/bench.js';
import { type Measure, ms, ratioRow } from '../support/measure.js';
import { interleave, now, percentile, timed } from '../support/stats.js';

const TASK = { kind: 'texts', events: 1 } as const;

export const startCall: Measure = {
  name: 'start',
  about: 'the start call, and start to run.started',
  async run(bench) {
    const { rounds, calls } = bench.scale;
    const turns = rounds * calls;
    await interleave(5, { holdfast: () => startedSeen(bench), bare: () => bareFirstLine(bench) });
    const call = await interleave(turns, {
      holdfast: () => holdfastCall(bench),
      bare: () => bareCall(bench),
    });
    const first = await interleave(turns, {
      holdfast: () => startedSeen(bench),
      bare: () => bareFirstLine(bench),
    });
    const [ours, beside] = [percentile(call.holdfast, 0.5), percentile(call.bare, 0.5)];
    const [seen, line] = [percentile(first.holdfast, 0.5), percentile(first.bare, 0.5)];
    return {
      rows: [
        ratioRow(
          {
            measure: 'start call p50',
            holdfast: ms(ours),
            beside: `${ms(beside)} describe + workflow.start`,
            ratio: ours / beside,
          },
          { atMost: 1.5 },
        ),
        ratioRow(
          {
            measure: 'start → run.started seen by a subscriber, p50',
            holdfast: ms(seen),
            beside: `${ms(line)} bare start → its activity's first line`,
            ratio: seen / line,
          },
          { atMost: 2 },
        ),
      ],
    };
  },
};

async function holdfastCall(bench: Bench): Promise<number> {
  let id = '';
  const took = await timed(async () => {
    id = await bench.submit(TASK);
  });
  await bench.client.waitForTerminal(id);
  await bench.handle(id).result();
  return took;
}

async function bareCall(bench: Bench): Promise<number> {
  const conversation = bench.handle(bench.conversations[0] ?? '');
  const from = now();
  await conversation.describe();
  const handle = await startBare(bench.temporal, 'bare', bench.freshId('call'), ['call']);
  const took = now() - from;
  await handle.result();
  return took;
}

async function startedSeen(bench: Bench): Promise<number> {
  const from = now();
  const id = await bench.submit(TASK);
  let seen = Number.NaN;
  for await (const event of bench.client.events(id)) if (event.type === 'run.started') seen = now();
  await bench.handle(id).result();
  return seen - from;
}

async function bareFirstLine(bench: Bench): Promise<number> {
  const id = bench.freshId('first');
  const arrived = bench.arrivals.expect(id);
  const from = now();
  const handle = await startBare(bench.temporal, 'bare', id, [id]);
  const at = await arrived;
  await handle.result();
  return at - from;
}
