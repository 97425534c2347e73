/** From an event's emission to its subscriber, at 40 a second with default settings. */
import { setTimeout as delay } from 'node:timers/promises';
import { startBare } from '../bare/start.js';
import { emittedAt } from '../holdfast/provider.js';
import { StreamsPeer } from '../peers/streams-peer.js';
import type { Bench } from '../support/bench.js';
import { wholeHistory } from '../support/history.js';
import { type Measure, ms, type Row, ratioRow } from '../support/measure.js';
import { interleave, median, now, percentile } from '../support/stats.js';

const PER_SECOND = 40;
const MAX_HISTORY_EVENTS = 850;

/** What one stream gave: delays in milliseconds, and the history events of its whole workflow. */
export interface StreamResult {
  readonly delays: readonly number[];
  readonly historyEvents: number;
}

type Results = Partial<Record<'tuned' | 'defaults', StreamResult[]>> & Record<'holdfast' | 'hop', StreamResult[]>;

export const streaming: Measure = {
  name: 'streaming',
  about: 'emit → subscriber at 40 events/s, beside a bare hop and workflow-streams',
  async run(bench) {
    const { rounds, streamed } = bench.scale;
    const found = await StreamsPeer.start(bench.server.address, bench.say);
    const notes: string[] = typeof found === 'string' ? [`workflow-streams was skipped: ${found}`] : [];
    const peer = typeof found === 'string' ? undefined : found;
    try {
      const own = { holdfast: () => stream(bench, streamed), hop: () => bareHops(bench, Math.ceil(streamed / 4)) };
      const task = { events: streamed, perSecond: PER_SECOND };
      await interleave(1, { holdfast: () => stream(bench, 10), hop: () => bareHops(bench, 10) });
      const results =
        peer === undefined
          ? await interleave(rounds, own)
          : await interleave(rounds, {
              ...own,
              tuned: () => peer.stream({ ...task, tuned: true }),
              defaults: () => peer.stream({ ...task, tuned: false }),
            });
      return { rows: rowsOf(results, streamed), notes };
    } finally {
      await peer?.stop();
    }
  },
};

function rowsOf(results: Results, streamed: number): Row[] {
  const quantile = (turns: readonly StreamResult[], p: number): number =>
    median(turns.map(({ delays }) => percentile(delays, p)));
  const history = (turns: readonly StreamResult[]): number => median(turns.map((turn) => turn.historyEvents));
  const { holdfast, hop, tuned, defaults } = results;
  const rows: Row[] = [];
  for (const [name, p] of [
    ['p50', 0.5],
    ['p95', 0.95],
  ] as const) {
    const ours = quantile(holdfast, p);
    const bare = quantile(hop, p);
    const measure = `emit → subscriber, ${PER_SECOND} events/s, ${streamed} events, ${name}`;
    const row = { measure, holdfast: ms(ours) };
    rows.push(
      ratioRow({ ...row, beside: `${ms(bare)} bare signal → history long poll`, ratio: ours / bare }, { atMost: 2 }),
    );
    for (const [how, turns] of [
      ['20 ms batches, no cooldown', tuned],
      ['defaults', defaults],
    ] as const) {
      if (turns === undefined) continue;
      const theirs = quantile(turns, p);
      const ratio = ours / theirs;
      rows.push({ ...row, beside: `${ms(theirs)} workflow-streams, ${how}`, ratio, goal: 'below it', met: ratio < 1 });
    }
  }
  const ours = history(holdfast);
  const goal = Math.round((MAX_HISTORY_EVENTS * streamed) / 200);
  rows.push({
    measure: `history events of that execution, ${streamed} events`,
    holdfast: String(ours),
    beside:
      tuned === undefined ? '–' : `${history(tuned)} workflow-streams, tuned; ${history(defaults ?? [])} by default`,
    goal: `≤ ${goal}`,
    met: ours <= goal,
    ...(tuned === undefined ? {} : { ratio: ours / history(tuned) }),
  });
  return rows;
}

async function stream(bench: Bench, events: number): Promise<StreamResult> {
  const id = await bench.submit({ kind: 'paced', events, perSecond: PER_SECOND });
  const delays: number[] = [];
  for await (const event of bench.client.events(id))
    if (event.type === 'output.text.delta') delays.push(now() - emittedAt(event.data.text).at);
  await bench.handle(id).result();
  const history = await wholeHistory(bench.temporal, bench.handle(id).workflowId);
  return { delays, historyEvents: history.length };
}

/** Signals to a workflow that only takes them, one at a time at the stream's pace, each seen by a history long poll. */
async function bareHops(bench: Bench, signals: number): Promise<StreamResult> {
  const id = bench.freshId('mailbox');
  const handle = await startBare(bench.temporal, 'mailbox', id, []);
  const delays: number[] = [];
  let seen = (): void => undefined;
  const following = followSignals(bench, id, signals, () => seen());
  for (let i = 0; i < signals; i++) {
    await delay(1_000 / PER_SECOND);
    const arrived = new Promise<number>((resolve) => {
      seen = () => resolve(now());
    });
    const from = now();
    await handle.signal('tick', { text: String(from) });
    delays.push((await arrived) - from);
  }
  await following;
  await handle.signal('close');
  await handle.result();
  return { delays, historyEvents: 0 };
}

async function followSignals(bench: Bench, workflowId: string, signals: number, seen: () => void): Promise<void> {
  let token: Uint8Array | undefined;
  for (let count = 0; count < signals; ) {
    const page = await bench.temporal.workflowService.getWorkflowExecutionHistory({
      namespace: bench.server.namespace,
      execution: { workflowId },
      waitNewEvent: true,
      ...(token === undefined ? {} : { nextPageToken: token }),
    });
    token = page.nextPageToken ?? undefined;
    for (const event of page.history?.events ?? []) {
      if (event.workflowExecutionSignaledEventAttributes == null) continue;
      count += 1;
      seen();
    }
  }
}
