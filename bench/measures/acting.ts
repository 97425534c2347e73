/** Acting on a live provider: an answer and a cancel, beside one bare signal that makes a workflow run an activity. */
import { startBare } from '../bare/start.js';
import type { Bench } from '../support/bench.js';
import { type Measure, ms, ratioRow } from '../support/measure.js';
import { interleave, now, percentile } from '../support/stats.js';
import { BARE_HOST_QUEUE } from '../workflows/messages.js';

export const acting: Measure = {
  name: 'acting',
  about: 'answer → provider and cancel → run.cancelled',
  async run(bench) {
    const variants = {
      answer: () => answered(bench),
      bare: () => bareSignal(bench),
      // An activity that has to reach one certain process cannot be started eagerly with its workflow task.
      hosted: () => bareSignal(bench, BARE_HOST_QUEUE),
      cancel: () => cancelled(bench),
    };
    await interleave(2, variants);
    const results = await interleave(bench.scale.rounds * bench.scale.calls, variants);
    const p50 = (samples: readonly number[]): number => percentile(samples, 0.5);
    const [answer, cancel] = [p50(results.answer), p50(results.cancel)];
    const firstLine = p50(results.bare.map((each) => each.firstLine));
    const closed = p50(results.bare.map((each) => each.closed));
    const hostedLine = p50(results.hosted.map((each) => each.firstLine));
    const hostedClosed = p50(results.hosted.map((each) => each.closed));
    return {
      rows: [
        ratioRow(
          {
            measure: 'answer → provider, p50',
            holdfast: ms(answer),
            beside: `${ms(firstLine)} signal → its activity's first line`,
            ratio: answer / firstLine,
          },
          { atMost: 1.5 },
        ),
        {
          measure: 'answer → provider, p50',
          holdfast: ms(answer),
          beside: `${ms(hostedLine)} the same, its activity on a queue of its own`,
          ratio: answer / hostedLine,
          goal: 'reported',
        },
        ratioRow(
          {
            measure: 'cancel → run.cancelled seen, p50',
            holdfast: ms(cancel),
            beside: `${ms(closed)} signal → activity → end of the workflow seen`,
            ratio: cancel / closed,
          },
          { atMost: 1.5 },
        ),
        {
          measure: 'cancel → run.cancelled seen, p50',
          holdfast: ms(cancel),
          beside: `${ms(hostedClosed)} the same, its activity on a queue of its own`,
          ratio: cancel / hostedClosed,
          goal: 'reported',
        },
      ],
    };
  },
};

async function answered(bench: Bench): Promise<number> {
  const id = await bench.submit({ kind: 'approve', suspend: false });
  const actionId = await bench.openAction(id);
  await quiet();
  const arrived = bench.arrivals.expect(id);
  const from = now();
  const [, at] = await Promise.all([bench.client.respond(id, actionId, { approved: true }), arrived]);
  await bench.client.waitForTerminal(id);
  await bench.handle(id).result();
  return at - from;
}

async function cancelled(bench: Bench): Promise<number> {
  const id = await bench.submit({ kind: 'hang' });
  let from = Number.NaN;
  let cancelling: Promise<unknown> | undefined;
  let seen = Number.NaN;
  for await (const event of bench.client.events(id)) {
    if (event.type === 'run.started') {
      await quiet();
      from = now();
      cancelling = bench.client.cancel(id, 'the bench wants it');
    }
    if (event.type === 'run.cancelled') seen = now();
  }
  await cancelling;
  await bench
    .handle(id)
    .result()
    .catch(() => undefined);
  return seen - from;
}

async function bareSignal(bench: Bench, taskQueue?: string): Promise<{ firstLine: number; closed: number }> {
  const id = bench.freshId('signal');
  const handle = await startBare(bench.temporal, 'signalToActivity', id, [
    id,
    ...(taskQueue === undefined ? [] : [taskQueue]),
  ]);
  const result = handle.result();
  await quiet();
  const arrived = bench.arrivals.expect(id);
  const from = now();
  await handle.signal('go');
  const firstLine = (await arrived) - from;
  await result;
  return { firstLine, closed: now() - from };
}

/** Until what went before is done with: the workflow's last task, above all. */
function quiet(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 60));
}
