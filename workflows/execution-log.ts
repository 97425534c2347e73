/**
 * The workflow's own end of the log: the reducer's state, what this run appended, and the two ways in, `signal` and
 * `mark`. A reader folds the same from history; the rules that keep both equal are in DESIGN §3 (The log).
 */
import { log, upsertMemo, workflowInfo } from '@temporalio/workflow';
import type { HoldfastEvent, LogEvent } from '../protocol/event.js';
import { eventId } from '../protocol/ids.js';
import { jsonBytes, throughJson } from '../protocol/json.js';
import { MAX_PAGE_BYTES } from '../protocol/limits.js';
import { type Mark, SIGNALS, type StoredMark, UNDECODABLE } from '../protocol/log/inputs.js';
import { begin, reduce } from '../protocol/log/reduce.js';
import type { LogState, Step } from '../protocol/log/state.js';
import { type EventsPage, type ExecutionStart, MEMO } from './messages.js';

export class ExecutionLog {
  state: LogState;
  /** Counts accepted changes, so that the main loop can wait for the next one. */
  version = 0;
  /** Journal entries of this run. */
  entries = 0;
  marks = 0;
  private readonly events: HoldfastEvent[] = [];
  private readonly from: number;
  private closing = false;

  constructor(start: ExecutionStart) {
    if (start.carry !== undefined) {
      this.state = start.carry.state;
      this.from = this.state.sequence;
      return;
    }
    const { input = null, requiredCapabilities = [], config = {}, metadata = {}, ...rest } = start.request ?? {};
    const step = begin(start.identity, { input, requiredCapabilities, config, metadata, ...rest });
    this.from = 0;
    this.state = step.state;
    this.take(step);
  }

  /**
   * Every signal comes here, in the order of history. Synchronous, and only reduces: nothing may be marked in a handler
   * (rule 3).
   */
  signal(name: string, args: readonly unknown[]): void {
    if (this.closing) return;
    const known = Object.hasOwn(SIGNALS, name) && !args.includes(UNDECODABLE);
    // Of the signals that a person sends, one in the wrong form is worth a word, too.
    if (!known || (name === 'respond' && !SIGNALS.respond.safeParse(args[0]).success))
      log.warn('a signal is dropped: unknown, undecodable, or not in the form it needs', { signal: name });
    this.take(reduce(this.state, { kind: 'signal', name, args }));
  }

  /**
   * What the workflow itself learned or decided enters the log here: the mark's own history event is its place. One
   * synchronous step, plain JSON, small; a no-op once the state was handed over.
   */
  mark(mark: Mark): void {
    if (this.closing) return;
    const stored: StoredMark = throughJson({ mark, sequence: this.state.sequence, head: this.state.head });
    this.marks += 1;
    upsertMemo({ [MEMO.mark]: stored });
    this.take(reduce(this.state, { kind: 'mark', mark: stored.mark }));
  }

  /** From here on the state is in other hands (a result, or the next run): nothing changes it any more. */
  close(): void {
    this.closing = true;
  }

  /** A page of what this run appended after `after`: for the Temporal UI, and as the tests' cross-check. */
  page(after = 0, limit = 1000): EventsPage {
    const start = Math.max(0, Math.floor(Number(after) || 0) - this.from);
    const most = Math.min(Math.max(1, Math.floor(Number(limit) || 1000)), 10_000);
    const events: HoldfastEvent[] = [];
    let bytes = 0;
    for (const event of this.events.slice(start, start + most)) {
      bytes += jsonBytes(event) + 1;
      if (bytes > MAX_PAGE_BYTES && events.length > 0) break;
      events.push(event);
    }
    const last = events.at(-1);
    return { events, ...(last !== undefined && last.sequence < this.state.sequence ? { next: last.sequence } : {}) };
  }

  /** The first sequence that this run can hold. */
  get first(): number {
    return this.from + 1;
  }

  get runId(): string {
    return workflowInfo().runId;
  }

  private take(step: Step): void {
    this.entries += step.entries.length;
    if (step.state !== this.state) this.version += 1;
    this.state = step.state;
    for (const event of step.events) this.events.push(timed(this.state.executionId, event));
  }
}

/** In the workflow an event has the time of its task; readers know the server's own (DESIGN §3, rule 5). */
function timed(executionId: string, event: LogEvent): HoldfastEvent {
  const { sequence, type, data } = event;
  const time = new Date(Date.now()).toISOString();
  return { id: eventId(executionId, sequence), executionId, sequence, type, time, data } as HoldfastEvent;
}
