/** Many events: 1,000 a second to one subscriber, and a flood. */
import { wholeHistory } from '../support/history.js';
import { type Measure, ms } from '../support/measure.js';
import { now, percentile } from '../support/stats.js';
import { longLog, PER_SECOND } from './long-log.js';

const MAX_PER_THOUSAND = 45;

export const fast: Measure = {
  name: 'fast',
  about: '1,000 events/s to one subscriber, and history events of a flood',
  async run(bench) {
    const { delays, emitting } = await longLog(bench);
    const rate = ((delays.length - 1) * 1_000) / emitting;
    const tenth = Math.ceil(delays.length / 10);
    const lastTenth = delays.slice(-tenth).map(({ y }) => y);
    const behind = percentile(lastTenth, 0.95);
    // It keeps up when the provider was not held back, and the last events are no later than a batch or two.
    const keepsUp = rate > 0.97 * PER_SECOND && behind < 500;
    const flood = await flooded(bench.scale.flood);
    return {
      rows: [
        {
          measure: `${PER_SECOND} events/s to one subscriber, ${delays.length} events`,
          holdfast: `${rate.toFixed(0)} /s; p50 ${ms(
            percentile(
              delays.map(({ y }) => y),
              0.5,
            ),
          )}, p95 at its end ${ms(behind)}`,
          beside: '–',
          goal: 'keeps up',
          met: keepsUp,
        },
        {
          measure: `history events per 1,000 in a flood of ${bench.scale.flood} events`,
          holdfast: flood.perThousand.toFixed(1),
          beside: `${flood.rate.toFixed(0)} events/s`,
          goal: `≤ ${MAX_PER_THOUSAND}`,
          met: flood.perThousand <= MAX_PER_THOUSAND,
        },
      ],
    };

    async function flooded(events: number): Promise<{ perThousand: number; rate: number }> {
      const from = now();
      const id = await bench.submit({ kind: 'flood', events });
      let seen = 0;
      for await (const event of bench.client.events(id)) if (event.type === 'output.text.delta') seen += 1;
      const took = now() - from;
      if (seen !== events) throw new Error(`of ${events} events of a flood ${seen} came`);
      await bench.handle(id).result();
      const history = await wholeHistory(bench.temporal, bench.handle(id).workflowId);
      return { perThousand: (history.length * 1_000) / events, rate: (events * 1_000) / took };
    }
  },
};
