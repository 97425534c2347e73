/** Whether an event takes longer the more there are before it. */
import { emittedAt } from '../holdfast/provider.js';
import type { Bench } from '../support/bench.js';
import { type Measure, ms, type Row } from '../support/measure.js';
import { median, now, type Point, slope } from '../support/stats.js';
import { longLog, PER_SECOND } from './long-log.js';

/** The slope counts as 0 when it adds less than this share of the median delay over the whole way. */
const TOLERANCE = 0.25;
const BUCKETS = 30;

export const growth: Measure = {
  name: 'growth',
  about: 'delay per event against the number of events before it',
  async run(bench) {
    const single = await singles(bench);
    const streamed = buckets((await longLog(bench)).delays);
    const [alone, inStream] = [
      rowOf('delay of a single event', single, bench.scale.longLog),
      rowOf(`delay at ${PER_SECOND} events/s`, streamed, bench.scale.longLog),
    ];
    return {
      rows: [alone, { ...inStream, goal: 'reported', met: undefined }],
      notes: [
        `A single event comes after a pause and is flushed at once, so its delay is the path alone. At ${PER_SECOND} events/s events gather for 25, 50 and 100 ms as a run grows, by design, and go back to 25 ms with the next run.`,
      ],
      plots: [
        {
          file: 'delay-by-count',
          title: 'Delay per event by the number of events before it',
          x: 'events before it',
          y: 'emit → subscriber, ms (median)',
          series: [
            { name: 'single events', points: single },
            { name: `at ${PER_SECOND} events/s`, points: streamed },
          ],
        },
      ],
    };
  },
};

function rowOf(measure: string, points: readonly Point[], upTo: number): Row {
  const middle = median(points.map(({ y }) => y));
  const added = slope(points) * upTo;
  return {
    measure: `${measure} against the number before it, to ${upTo}`,
    holdfast: `${added >= 0 ? '+' : '−'}${ms(Math.abs(added))} over ${upTo}`,
    beside: `${ms(middle)} median delay`,
    ratio: added / middle,
    goal: `≈ 0 (< ${TOLERANCE} × the median)`,
    met: added < TOLERANCE * middle,
  };
}

/** Median delays of the single events at each stop. */
async function singles(bench: Bench): Promise<Point[]> {
  const { probeStops: stops, probes, longLog: events } = bench.scale;
  const between = Math.ceil(events / stops) - probes - 1;
  const id = await bench.submit({ kind: 'probed', stops, between, probes });
  const points: Point[] = [];
  let before = 0;
  let stop: number[] = [];
  for await (const event of bench.client.events(id)) {
    if (event.type !== 'output.text.delta') continue;
    const { at, probe } = emittedAt(event.data.text);
    if (probe) stop.push(now() - at);
    if (stop.length === probes) {
      points.push({ x: before, y: median(stop) });
      stop = [];
    }
    before += 1;
  }
  await bench.handle(id).result();
  return points;
}

function buckets(delays: readonly Point[]): Point[] {
  const size = Math.ceil(delays.length / BUCKETS);
  return Array.from({ length: Math.floor(delays.length / size) }, (_, i) => {
    const bucket = delays.slice(i * size, (i + 1) * size);
    return { x: median(bucket.map(({ x }) => x)), y: median(bucket.map(({ y }) => y)) };
  });
}
