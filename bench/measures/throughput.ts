/** Executions a second, beside a bare workflow and one with the same history events. */
import { likeAnExecution, startBare } from '../bare/start.js';
import type { Bench } from '../support/bench.js';
import { countTypes, type HistoryEvent, wholeHistory } from '../support/history.js';
import { type Measure, perSecond, ratioRow, type Series } from '../support/measure.js';
import { TURNS_PROVIDER } from '../support/names.js';
import { inLanes, interleave, median, now, pairedRatio } from '../support/stats.js';
import type { PlannedSignal, SameEventsPlan } from '../workflows/messages.js';

const AT_ONCE = 30;
const EVENTS = 10;

export const throughput: Measure = {
  name: 'throughput',
  about: 'executions a second, and against concurrency',
  async run(bench) {
    const { scale } = bench;
    const plan = await planOf(bench);
    const variants = {
      holdfast: (atOnce: number, count: number) => executions(bench, atOnce, count),
      bare: (atOnce: number, count: number) => workflows(bench, 'bare', ['noop'], atOnce, count),
      same: (atOnce: number, count: number) => workflows(bench, 'sameEvents', [plan], atOnce, count),
      turns: (atOnce: number, count: number) => executions(bench, atOnce, count, TURNS_PROVIDER),
    };
    for (const warmUp of Object.values(variants)) await warmUp(AT_ONCE, AT_ONCE);
    const results = await interleave(scale.rounds, {
      holdfast: () => variants.holdfast(AT_ONCE, scale.executions),
      bare: () => variants.bare(AT_ONCE, scale.executions),
      same: () => variants.same(AT_ONCE, scale.executions),
      turns: () => variants.turns(AT_ONCE, scale.executions),
    });
    const { holdfast, bare, same, turns } = results;
    const name = `executions/s, ${AT_ONCE} at once, ${EVENTS} text events each`;
    const ours = perSecond(median(holdfast));
    const rows = [
      ratioRow(
        {
          measure: name,
          holdfast: ours,
          beside: `${perSecond(median(bare))} bare`,
          ratio: pairedRatio(holdfast, bare),
        },
        { atLeast: 0.65 },
      ),
      ratioRow(
        {
          measure: name,
          holdfast: ours,
          beside: `${perSecond(median(same))} same events`,
          ratio: pairedRatio(holdfast, same),
        },
        { atLeast: 0.9 },
      ),
      {
        measure: 'the same, each with a turn in its conversation',
        holdfast: perSecond(median(turns)),
        beside: `${ours} without a turn`,
        ratio: pairedRatio(turns, holdfast),
        goal: 'reported',
      },
    ];
    const points = { holdfast: median(holdfast), bare: median(bare), same: median(same) };
    const notes = await eventsOf(bench, plan);
    return { rows, notes, plots: [await againstConcurrency(bench, variants, points)] };
  },
};

async function againstConcurrency(
  bench: Bench,
  variants: Readonly<Record<'holdfast' | 'bare' | 'same', (atOnce: number, count: number) => Promise<number>>>,
  known: Readonly<Record<'holdfast' | 'bare' | 'same', number>>,
) {
  const names = { bare: 'bare', same: 'same events', holdfast: 'Holdfast' } as const;
  const keys = ['bare', 'same', 'holdfast'] as const;
  const points = { bare: [], same: [], holdfast: [] } as Record<(typeof keys)[number], { x: number; y: number }[]>;
  for (const atOnce of bench.scale.concurrencies)
    for (const key of keys) {
      const count = Math.max(10, Math.min(bench.scale.executions, atOnce * 10));
      const y = atOnce === AT_ONCE ? known[key] : await variants[key](atOnce, count);
      points[key].push({ x: atOnce, y });
    }
  const series: Series[] = keys.map((key) => ({ name: names[key], points: points[key] }));
  return {
    file: 'throughput-by-concurrency',
    title: 'Throughput by concurrency',
    x: 'executions at once',
    y: 'completed per second',
    series,
  };
}

/** Executions, from the start call to the end that a follower sees; how many a second. */
async function executions(bench: Bench, atOnce: number, count: number, providerId?: string): Promise<number> {
  const task = { kind: 'texts', events: EVENTS } as const;
  const from = now();
  await inLanes(count, atOnce, async (_, lane) => {
    const id = await bench.submit(task, { lane, ...(providerId === undefined ? {} : { providerId }) });
    const { state } = await bench.client.waitForTerminal(id, { timeoutMs: 60_000 });
    if (state !== 'succeeded') throw new Error(`an execution of the bench ended as ${state}`);
  });
  return (count * 1_000) / (now() - from);
}

async function workflows(
  bench: Bench,
  type: 'bare' | 'sameEvents',
  args: readonly unknown[],
  atOnce: number,
  count: number,
): Promise<number> {
  const from = now();
  await inLanes(count, atOnce, async () => {
    const id = bench.freshId(type);
    const handle = await startBare(bench.temporal, type, id, args, type === 'bare' ? {} : likeAnExecution(id));
    await handle.result();
  });
  return (count * 1_000) / (now() - from);
}

/** Plans a workflow with the events of a real execution. */
async function planOf(bench: Bench): Promise<SameEventsPlan> {
  await historyOf(bench);
  const real = await historyOf(bench);
  const signals: PlannedSignal[] = [];
  let before: number | undefined;
  for (const { time, bytes } of signalsOf(real)) {
    signals.push({ bytes, afterMs: time - (before ?? time) });
    before = time;
  }
  return { signals, upserts: countTypes(real).UPSERT_WORKFLOW_SEARCH_ATTRIBUTES ?? 0 };
}

/**
 * How many history events each variant has: signals share workflow tasks as it happens, so the mean of some that run
 * at once, not one.
 */
async function eventsOf(bench: Bench, plan: SameEventsPlan): Promise<string[]> {
  const histories = { real: [] as number[], same: [] as number[], turns: [] as number[] };
  let types: Record<string, number> = {};
  await inLanes(AT_ONCE, AT_ONCE, async (_, lane) => {
    const history = await historyOf(bench, lane);
    histories.real.push(history.length);
    types = countTypes(history);
  });
  await inLanes(AT_ONCE, AT_ONCE, async () => {
    const id = bench.freshId('same');
    const handle = await startBare(bench.temporal, 'sameEvents', id, [plan], likeAnExecution(id));
    await handle.result();
    histories.same.push((await wholeHistory(bench.temporal, id)).length);
  });
  await inLanes(AT_ONCE, AT_ONCE, async (_, lane) => {
    histories.turns.push((await historyOf(bench, lane, TURNS_PROVIDER)).length);
  });
  const mean = (all: readonly number[]): string => (all.reduce((sum, n) => sum + n, 0) / all.length).toFixed(1);
  const list = Object.entries(types).map(([type, n]) => `${n} ${type}`);
  return [
    `History events of one of ${AT_ONCE} at once, on average: ${mean(histories.real)} an execution, ${mean(histories.same)} *same events*, ${mean(histories.turns)} an execution with a turn (its conversation's own not counted). One of them: ${list.join(', ')}.`,
  ];
}

async function historyOf(bench: Bench, lane = 0, providerId?: string): Promise<HistoryEvent[]> {
  const more = providerId === undefined ? {} : { providerId };
  const id = await bench.submit({ kind: 'texts', events: EVENTS }, { lane, ...more });
  await bench.client.waitForTerminal(id);
  const handle = bench.handle(id);
  await handle.result();
  return await wholeHistory(bench.temporal, handle.workflowId);
}

function signalsOf(history: readonly HistoryEvent[]): { readonly time: number; readonly bytes: number }[] {
  return history.flatMap(({ eventTime, workflowExecutionSignaledEventAttributes: signal }) => {
    if (signal == null) return [];
    const time = Number(eventTime?.seconds ?? 0) * 1_000 + (eventTime?.nanos ?? 0) / 1e6;
    return [{ time, bytes: signal.input?.payloads?.[0]?.data?.byteLength ?? 0 }];
  });
}
