/** An execution's events for people: a line each, with text deltas joined to the lines they make. */
import type { EventData, HoldfastEvent } from '../protocol/event.js';
import type { Screen } from './screen.js';
import { oneLine, plain } from './text.js';

/** Text that pauses for this long is shown, in milliseconds. */
const PAUSE_MS = 400;
const NUMBER_WIDTH = 7;
const LABEL_WIDTH = 18;
const TEXT_WIDTH = 70;

export class EventPrinter {
  private text = '';
  private first = 0;
  private last = 0;
  private timer: NodeJS.Timeout | undefined;
  private readonly titles = new Map<string, string>();

  constructor(private readonly screen: Screen) {}

  print(event: HoldfastEvent): void {
    if (event.type !== 'output.text.delta') {
      this.flush();
      this.row(String(event.sequence), ...this.describe(event));
      return;
    }
    if (this.text === '') this.first = event.sequence;
    this.last = event.sequence;
    this.text += event.data.text;
    clearTimeout(this.timer);
    if (this.text.length >= TEXT_WIDTH) this.flush();
    else this.timer = setTimeout(() => this.flush(), PAUSE_MS).unref();
  }

  /** Shows the text that was held back for more of its line. */
  flush(): void {
    clearTimeout(this.timer);
    if (this.text === '') return;
    const numbers = this.first === this.last ? `${this.last}` : `${this.first}–${this.last}`;
    for (const [index, line] of plain(this.text).replace(/^\n+/, '').trimEnd().split('\n').entries())
      this.row(index === 0 ? numbers : '', index === 0 ? 'text' : '', line);
    this.text = '';
  }

  /** What comes from the agent stands to the right of a bar, so that none of it can pass for a line of ours. */
  private row(numbers: string, label: string, said = ''): void {
    const bar = said === '' ? '' : ` │ ${said}`;
    this.screen.line(`${numbers.padStart(NUMBER_WIDTH)}  ${label.padEnd(LABEL_WIDTH)}${bar}`.trimEnd());
  }

  private describe(event: Exclude<HoldfastEvent, { type: 'output.text.delta' }>): [label: string, said?: string] {
    switch (event.type) {
      case 'run.queued':
        return [event.type, event.data.providerId];
      case 'run.started':
        return [event.type, `${event.data.providerId} ${event.data.providerVersion}`];
      case 'output.text.done':
        return [event.type];
      case 'action.required':
        return [event.type, oneLine(event.data.title, TEXT_WIDTH)];
      case 'action.responded':
        return [event.type, answerOf(event.data)];
      case 'artifact.created':
        return [event.type, oneLine(event.data.name, TEXT_WIDTH)];
      case 'provider.event':
        return this.native(event.data);
      case 'run.completed':
        return [event.type];
      case 'run.failed':
        return [event.type, oneLine(`${event.data.code}: ${event.data.message}`, TEXT_WIDTH)];
      case 'run.cancelled':
        return [event.type, event.data.confirmation];
      default:
        return event satisfies never;
    }
  }

  private native(data: Extract<HoldfastEvent, { type: 'provider.event' }>['data']): [label: string, said?: string] {
    const name = oneLine(String(data.name), TEXT_WIDTH);
    if (name === 'runtime.recovered') return [name, `goes on from sequence ${String(data.resumedFrom ?? '?')}`];
    const { update } = data;
    if (typeof update !== 'object' || update === null || Array.isArray(update)) return ['provider.event', name];
    const { toolCallId, title, status, content } = update;
    if (typeof toolCallId === 'string') {
      if (typeof title === 'string' && title !== '') this.titles.set(toolCallId, title);
      const called = oneLine(this.titles.get(toolCallId) ?? 'tool call', TEXT_WIDTH);
      return ['tool call', typeof status === 'string' ? `${called} — ${oneLine(status)}` : called];
    }
    const text = typeof content === 'object' && content !== null && !Array.isArray(content) ? content.text : undefined;
    return typeof text === 'string' ? [name, oneLine(text, TEXT_WIDTH)] : ['provider.event', name];
  }
}

function answerOf({ approved, expired }: EventData<'action.responded'>): string {
  if (expired) return 'nobody answered in time';
  if (approved === undefined) return 'answered';
  return approved ? 'approved' : 'rejected';
}
