/** An execution as it goes on, shown to its end: what `run` and `watch` share. */
import type { HoldfastClient } from '../client/client.js';
import type { ActionRequest, ActionResponse } from '../protocol/action.js';
import { HoldfastError } from '../protocol/errors.js';
import type { HoldfastEvent } from '../protocol/event.js';
import { MAX_TEXT_BYTES } from '../protocol/limits.js';
import { answerCommands, questionLines } from './describe-action.js';
import { EventPrinter } from './event-printer.js';
import { EXIT, exitCodeOf } from './exit.js';
import { Interrupts } from './interrupts.js';
import type { Output } from './output.js';
import { Screen } from './screen.js';
import { oneLine } from './text.js';

/** What becomes of a question: put to the person here, answered the same each time, left to others, or it ends us. */
export type OnAction = 'ask' | 'approve' | 'reject' | 'wait' | 'leave';

export interface FollowOptions {
  readonly executionId: string;
  readonly after: number;
  readonly onAction: OnAction;
  /** The first Ctrl-C cancels the execution; else it only leaves. */
  readonly cancelOnInterrupt: boolean;
  /** Only the final output is printed, at the end. */
  readonly quiet: boolean;
}

/** So long may it be queued before a word is said about it, in milliseconds. */
const QUEUED_MS = 4_000;

/** Shows the events to the end, or until whoever watches leaves. Returns the exit code. */
export async function follow(client: HoldfastClient, out: Output, options: FollowOptions): Promise<number> {
  return await new Follow(client, out, options).run();
}

class Follow {
  private readonly interrupts: Interrupts;
  private readonly screen = new Screen();
  private readonly printer = new EventPrinter(this.screen);
  private sequence: number;
  private text = '';
  private cancelling: Promise<void> | undefined;

  constructor(
    private readonly client: HoldfastClient,
    private readonly out: Output,
    private readonly options: FollowOptions,
  ) {
    this.sequence = options.after;
    this.interrupts = new Interrupts(options.cancelOnInterrupt ? () => this.startCancel() : undefined);
  }

  async run(): Promise<number> {
    const { executionId } = this.options;
    const stillQueued = setTimeout(() => void this.sayWhyQueued(), QUEUED_MS).unref();
    try {
      const { signal } = this.interrupts.leaving;
      const events = this.client.events(executionId, { after: this.options.after, signal });
      let next = events.next();
      for (;;) {
        const { done, value: event } = await next;
        if (done) break;
        if (event.type !== 'run.queued') clearTimeout(stillQueued);
        this.show(event);
        next = events.next();
        if (event.type === 'action.required' && this.cancelling === undefined) {
          const left = await this.onAction(event.data, next);
          if (left !== undefined) {
            await events.return?.();
            return left;
          }
        }
      }
      this.printer.flush();
      return signal.aborted ? this.left() : await this.ended();
    } finally {
      clearTimeout(stillQueued);
      this.interrupts.close();
    }
  }

  private show(event: HoldfastEvent): void {
    this.sequence = event.sequence;
    if (event.type === 'output.text.delta') this.keep(event.data.text);
    if (this.out.json) this.out.record(event);
    else if (!this.options.quiet) this.printer.print(event);
  }

  /** The end of what was said, as much as a final output can hold: a log may have far more than fits in memory. */
  private keep(text: string): void {
    this.text += text;
    if (this.text.length > 2 * MAX_TEXT_BYTES) this.text = this.text.slice(-MAX_TEXT_BYTES);
  }

  /** An exit code when nobody here can answer; undefined when it goes on. */
  private async onAction(
    action: ActionRequest,
    next: Promise<IteratorResult<HoldfastEvent>>,
  ): Promise<number | undefined> {
    const { executionId, onAction } = this.options;
    this.printer.flush();
    // In a backlog most questions have their answer.
    const { pendingActions } = await this.client.getExecution(executionId);
    if (!pendingActions.some(({ id }) => id === action.id)) return undefined;
    switch (onAction) {
      case 'approve':
      case 'reject':
        if (action.kind === 'approval') {
          await this.respond(action, { approved: onAction === 'approve' });
          return undefined;
        }
        return this.needsAnswer(action);
      case 'wait':
        this.out.note(`${executionId} asks: ${oneLine(action.title)}\n  ${answerCommands(executionId, action)}`);
        return undefined;
      case 'leave':
        return this.needsAnswer(action);
      case 'ask':
        await this.ask(action, next);
        return undefined;
      default:
        return onAction satisfies never;
    }
  }

  private needsAnswer(action: ActionRequest): number {
    const { executionId } = this.options;
    const flags =
      action.kind === 'approval' ? ' (or run it with --approve, --reject or --wait)' : ' (or run it with --wait)';
    this.out.note(
      `holdfast: ${executionId} waits for an answer, and there is no terminal to ask at: ${oneLine(action.title)}\n` +
        `  answer: ${answerCommands(executionId, action)}${flags}\n` +
        `  then go on: holdfast watch ${executionId} --after ${this.sequence}`,
    );
    return EXIT.needsAnswer;
  }

  private async ask(action: ActionRequest, next: Promise<IteratorResult<HoldfastEvent>>): Promise<void> {
    this.screen.heading(action.kind === 'approval' ? 'It asks for permission' : 'It asks you something');
    for (const line of questionLines(action)) this.screen.line(line);
    this.screen.quiet(`From any other terminal: ${answerCommands(this.options.executionId, action)}`);
    // The log going on is how we learn that it was answered elsewhere, or is not asked any more.
    const over = new AbortController();
    const overNow = (): void => over.abort();
    next.then(overNow, overNow);
    const { askPerson } = await import('./asking.js');
    const said = await askPerson(action, AbortSignal.any([over.signal, this.interrupts.leaving.signal]));
    if (said === 'interrupted') this.interrupts.interrupt();
    else if (said === 'left') {
      if (!this.interrupts.leaving.signal.aborted)
        this.screen.say('It is not asked any more: it was answered elsewhere.');
    } else if (!(await this.respond(action, said))) await this.ask(action, next);
  }

  /** To what was asked and nothing else. False when the answer is none that it takes: the question is open still. */
  private async respond(action: ActionRequest, response: ActionResponse): Promise<boolean> {
    try {
      const given = { ...response, expectedDigest: action.digest };
      await this.client.respond(this.options.executionId, action.id, given);
      return true;
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      if (error.code === 'ACTION_ALREADY_RESOLVED' || error.code === 'INVALID_STATE') {
        this.out.note('It was answered elsewhere in the meantime.');
        return true;
      }
      if (error.code !== 'VALIDATION_ERROR' || this.options.onAction !== 'ask') throw error;
      this.out.note(`It does not take that: ${error.message}`);
      return false;
    }
  }

  private startCancel(): void {
    this.cancelling = this.cancel();
  }

  private async cancel(): Promise<void> {
    const { executionId } = this.options;
    this.printer.flush();
    this.out.note('\nCancelling; waiting until it is confirmed. Ctrl-C again leaves it to itself.');
    try {
      await this.client.cancel(executionId, 'interrupted at the terminal');
    } catch (error) {
      if (this.interrupts.leaving.signal.aborted) return;
      const why = error instanceof Error ? error.message : String(error);
      this.out.note(`The cancel may not have arrived: ${why}\n  again: holdfast cancel ${executionId}`);
    }
  }

  private left(): number {
    const { executionId } = this.options;
    const how = this.cancelling === undefined ? 'goes on' : 'is being cancelled';
    this.out.note(`\nLeft. ${executionId} ${how}: holdfast watch ${executionId} --after ${this.sequence}`);
    return this.interrupts.exitCode;
  }

  private async ended(): Promise<number> {
    // The end may be seen before the call that asked for it has returned.
    await this.cancelling;
    const { executionId } = this.options;
    const {
      state,
      error,
      finalOutput = '',
      startedAt,
      createdAt,
      endedAt = createdAt,
    } = await this.client.getExecution(executionId);
    if (this.options.quiet) {
      if (state === 'succeeded') this.out.say(finalOutput);
      else
        this.out.note(
          oneLine(
            `holdfast: ${executionId} ${state}${error === undefined ? '' : `: ${error.code}: ${error.message}`}`,
            1_000,
          ),
        );
    } else if (!this.out.json) {
      const seconds = ((Date.parse(endedAt) - Date.parse(startedAt ?? createdAt)) / 1000).toFixed(1);
      this.screen.say(`${state} after ${seconds} s`);
      if (error !== undefined) this.screen.loud(oneLine(`${error.code}: ${error.message}`, 1_000));
      // What has just been shown as text is not repeated.
      if (finalOutput !== '' && !this.text.endsWith(finalOutput)) this.screen.line(`│ ${finalOutput}`);
    }
    return exitCodeOf(state);
  }

  private async sayWhyQueued(): Promise<void> {
    const { ready, missing } = await this.client.readiness();
    const why = ready
      ? 'it waits for its turn in the conversation, or for a free slot of its provider'
      : missing.join('; ');
    this.out.note(`Still queued: ${why}`);
  }
}
