/**
 * The fold of a run's history: the log as every reader computes it. A continued run begins from its start argument,
 * for every reader, so a late joiner and one that followed all along hold the same.
 */
import type { HoldfastEvent, LogEvent } from '../protocol/event.js';
import type { Execution, Usage } from '../protocol/execution.js';
import { eventId } from '../protocol/ids.js';
import type { Json } from '../protocol/json.js';
import { begin, reduce } from '../protocol/log/reduce.js';
import { seal } from '../protocol/log/seal.js';
import type { LogState, Step, Verdict } from '../protocol/log/state.js';
import type { ExecutionStart, LogTimes, Segment } from '../workflows/messages.js';
import type { HistoryItem } from './history.js';

/** What one item of history did. */
export interface Folded {
  readonly events: readonly HoldfastEvent[];
  readonly entries: readonly Json[];
  readonly verdict?: { readonly call?: string | undefined; readonly verdict: Verdict };
}

const NOTHING: Folded = { events: [], entries: [] };

export class RunFold {
  /** Where this run's part of the log begins: sequences after this one. */
  readonly from: number;
  readonly segments: readonly Segment[];
  readonly start: ExecutionStart;
  state: LogState;
  times: LogTimes;
  /** Journal entries of this run. */
  readonly entries: Json[] = [];
  /** Marks whose head was not ours: the workflow saw another log for a while (DESIGN §3, rule 8). */
  divergences = 0;
  marks = 0;
  private clock = 0;
  private first: Folded;

  constructor(item: Extract<HistoryItem, { kind: 'start' }>) {
    const { start, time } = item;
    this.start = start;
    this.segments = start.carry?.segments ?? [];
    this.clock = time;
    const createdAt = start.createdAt ?? new Date(time).toISOString();
    if (start.carry) {
      this.state = start.carry.state;
      this.times = start.carry.times;
      this.from = this.state.sequence;
      this.first = NOTHING;
    } else {
      const { input = null, requiredCapabilities = [], config = {}, metadata = {}, ...rest } = start.request ?? {};
      const step = begin(start.identity, { input, requiredCapabilities, config, metadata, ...rest });
      this.from = 0;
      this.state = step.state;
      this.times = { createdAt, updatedAt: createdAt, actions: {} };
      this.first = this.take(step, time);
    }
  }

  /** What the start itself appended: `run.queued` in the first run, nothing in a continued one. */
  begin(): Folded {
    const first = this.first;
    this.first = NOTHING;
    return first;
  }

  apply(item: HistoryItem): Folded {
    switch (item.kind) {
      case 'input': {
        if (item.seen !== undefined) {
          this.marks += 1;
          if (item.seen.head !== this.state.head) this.divergences += 1;
        }
        return this.take(reduce(this.state, item.input), item.time);
      }
      case 'close':
        return this.take(seal(this.state, item.closing), item.time);
      case 'start':
      case 'continued':
      case 'reset':
        return NOTHING;
      default:
        return item satisfies never;
    }
  }

  private take(step: Step, time: number): Folded {
    const changed = step.state !== this.state;
    const before = this.state;
    this.state = step.state;
    if (!changed && step.events.length === 0 && step.verdict === undefined) return NOTHING;
    // Non-decreasing within the run: server clocks of two hosts may differ, the log's order may not.
    this.clock = Math.max(this.clock, time);
    const at = new Date(this.clock).toISOString();
    const events = step.events.map((event) => timed(this.state.executionId, event, at));
    for (const entry of step.entries) this.entries.push(entry);
    if (events.length > 0 || before.state !== this.state.state || before.usage !== this.state.usage)
      this.times = advance(this.times, before, this.state, at);
    return { events, entries: step.entries, ...(step.verdict === undefined ? {} : { verdict: step.verdict }) };
  }

  /** The execution as the contract shows it. */
  execution(): Execution {
    return executionOf(this.state, this.times);
  }
}

function timed(executionId: string, event: LogEvent, time: string): HoldfastEvent {
  const { sequence, type, data } = event;
  return { id: eventId(executionId, sequence), executionId, sequence, type, time, data } as HoldfastEvent;
}

function advance(times: LogTimes, before: LogState, after: LogState, at: string): LogTimes {
  const ended = Object.keys(after.actions).filter((id) => !Object.hasOwn(before.actions, id));
  const terminal = after.result !== undefined && before.result === undefined;
  return {
    ...times,
    updatedAt: at,
    ...(after.hasStarted && !before.hasStarted ? { startedAt: at } : {}),
    ...(terminal ? { endedAt: at } : {}),
    ...(ended.length === 0
      ? {}
      : { actions: { ...times.actions, ...Object.fromEntries(ended.map((id) => [id, at])) } }),
  };
}

function executionOf(state: LogState, times: LogTimes): Execution {
  const { request, result } = state;
  const outcome: { finalOutput?: string; error?: { code: string; message: string }; usage?: Usage } = {};
  if (result !== undefined && 'finalOutput' in result) {
    outcome.finalOutput = result.finalOutput;
  } else if (result !== undefined && 'code' in result) {
    outcome.error = { code: result.code, message: result.message };
  }
  if (state.usage !== undefined) outcome.usage = state.usage;
  return {
    id: state.executionId,
    conversationId: state.conversationId,
    providerId: state.providerId,
    state: state.state,
    input: request.input,
    requiredCapabilities: [...request.requiredCapabilities],
    effectiveConfig: state.effectiveConfig ?? request.config,
    metadata: request.metadata,
    createdAt: times.createdAt,
    updatedAt: times.updatedAt,
    ...(times.startedAt === undefined ? {} : { startedAt: times.startedAt }),
    ...(times.endedAt === undefined ? {} : { endedAt: times.endedAt }),
    ...outcome,
    pendingActions: state.open === undefined ? [] : [state.open.request],
  };
}

/** Whether the log has its end. */
export function isEnded(state: LogState): boolean {
  return state.result !== undefined;
}
