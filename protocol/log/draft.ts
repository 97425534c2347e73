/** One step in the making: the next state, the events it appends, and the hash over both. */
import type { LogEvent } from '../event.js';
import { isTerminalEvent } from '../event.js';
import type { Json } from '../json.js';
import { bytesAfter, jsonBytes, withoutBeginning } from '../json.js';
import { type ExecutionState, walk } from '../lifecycle.js';
import { KIB, MAX_CARRIED_JOURNAL_BYTES, MAX_TEXT_BYTES } from '../limits.js';
import { advanceHead } from './head.js';
import type { EndedAction, LogState, Step } from './state.js';

type Mutable<T> = { -readonly [K in keyof T]: T[K] };
/** An event still without its sequence. */
type NewEvent = LogEvent extends infer E ? (E extends LogEvent ? Omit<E, 'sequence'> : never) : never;

/** Text is cut in strides, so that a long stream does not make its whole text anew at every delta. */
const TEXT_SLACK_BYTES = 16 * KIB;

export class Draft {
  readonly state: Mutable<LogState>;
  readonly events: LogEvent[] = [];
  readonly entries: Json[] = [];

  constructor(state: LogState) {
    this.state = { ...state };
  }

  step(): Step {
    return { state: this.state, events: this.events, entries: this.entries };
  }

  /** Records an accepted effect in the head. */
  accept(label: string, value: unknown): void {
    this.state.head = advanceHead(this.state.head, `${label}:${JSON.stringify(value) ?? ''}`);
  }

  emit(event: NewEvent): void {
    const full = { ...event, sequence: this.state.sequence + 1 } as LogEvent;
    this.state.sequence = full.sequence;
    this.events.push(full);
    this.accept(full.type, full.data);
  }

  /** Moves along the arrows of the lifecycle; a walk that does not exist changes nothing. */
  moveTo(target: ExecutionState): boolean {
    const path = walk(this.state.state, target);
    if (path === undefined) return false;
    this.state.state = target;
    return true;
  }

  addText(text: string): void {
    this.state.textBytes += bytesAfter(this.state.text, text);
    this.state.text += text;
    if (this.state.textBytes <= MAX_TEXT_BYTES + TEXT_SLACK_BYTES) return;
    // With the quotes around it.
    const kept = withoutBeginning(this.state.text, this.state.textBytes + 2 - MAX_TEXT_BYTES);
    this.state.text = kept.text;
    this.state.textBytes -= kept.dropped;
    this.state.textCut = true;
  }

  addEntry(entry: Json): void {
    const { count, bytes, entries } = this.state.journal;
    const total = bytes + jsonBytes(entry);
    this.state.journal = {
      count: count + 1,
      bytes: total,
      ...(entries !== undefined && total <= MAX_CARRIED_JOURNAL_BYTES ? { entries: [...entries, entry] } : {}),
    };
    this.entries.push(entry);
    this.accept('record', entry);
    this.state.recoveries = { ...this.state.recoveries, sinceEntry: 0 };
  }

  /** From here on a recovered attempt goes on. */
  setResumePoint(): void {
    const { sequence, text, textBytes, textCut } = this.state;
    this.state.resumePoint = { sequence, text, textBytes, textCut };
  }

  /** Drops the text of a lost attempt that its recovery will say again. */
  returnToResumePoint(): void {
    const { text, textBytes, textCut } = this.state.resumePoint;
    Object.assign(this.state, { text, textBytes, textCut });
  }

  endAction(id: string, ended: EndedAction): void {
    this.state.actions = { ...this.state.actions, [id]: ended };
    delete this.state.open;
    this.accept('action', [id, ended.how]);
  }

  /** Withdraws what is open. `onRecord` when the execution goes on, so that a reader learns of it. */
  withdrawOpen(onRecord: boolean): void {
    const open = this.state.open;
    if (open === undefined) return;
    this.endAction(open.request.id, { how: 'withdrawn' });
    if (this.state.state === 'awaiting_approval' || this.state.state === 'awaiting_input') this.moveTo('running');
    if (onRecord)
      this.emit({ type: 'provider.event', data: { name: 'runtime.action_withdrawn', actionId: open.request.id } });
  }

  /** The one terminal event, with what was used until then, and the state that goes with it. */
  finish(given: Extract<NewEvent, { type: 'run.completed' | 'run.failed' | 'run.cancelled' }>): void {
    if (!isTerminalEvent(given)) return;
    const { usage } = this.state;
    const event = (usage === undefined ? given : { ...given, data: { ...given.data, usage } }) as typeof given;
    this.withdrawOpen(false);
    this.moveTo(event.type === 'run.completed' ? 'succeeded' : event.type === 'run.failed' ? 'failed' : 'cancelled');
    this.state.result = event.data;
    this.state.answers = [];
    delete this.state.host;
    this.emit(event);
  }
}

/** The step of an input that changes nothing. */
export function unchanged(state: LogState): Step {
  return { state, events: [], entries: [] };
}
