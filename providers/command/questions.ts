/** Questions of a command to a person, and the lines that answer them. */
import type { ActionResponse } from '../../protocol/action.js';
import { clip, type JsonObject } from '../../protocol/json.js';
import { KIB } from '../../protocol/limits.js';
import type { Redactor } from '../process/redact.js';
import type { RunContext } from '../provider.js';
import type { Question } from './events.js';
import type { Output } from './output.js';

const MAX_PAYLOAD = 48 * KIB;
/** Questions that may wait at once. */
const MAX_OPEN = 100;

export interface QuestionsOptions {
  readonly ctx: RunContext;
  readonly output: Output;
  readonly redactor: Redactor;
  /** Writes one line to the command. */
  send(line: JsonObject): void;
  /** Called with true when a person begins to be waited for, with false when that is over. */
  onWaiting(waiting: boolean): void;
  onFailure(error: unknown): void;
}

export class Questions {
  readonly #options: QuestionsOptions;
  readonly #closing = new AbortController();
  #open = 0;

  constructor(options: QuestionsOptions) {
    this.#options = options;
  }

  /** Withdraws what is open: nobody waits for the answers any more. */
  close(): void {
    this.#closing.abort();
  }

  /** Asks; the answer is written when it comes, and the command may go on meanwhile. Throws when too many wait. */
  ask(question: Question): void {
    if (this.#open >= MAX_OPEN) throw new Error(`asked more than ${MAX_OPEN} questions at once`);
    this.#open += 1;
    void this.#ask(question).finally(() => {
      this.#open -= 1;
    });
  }

  async #ask(question: Question): Promise<void> {
    const { ctx, output, redactor, send, onWaiting, onFailure } = this.#options;
    const { signal } = this.#closing;
    const { value: payload, truncated } = output.bounded(question.payload ?? null, MAX_PAYLOAD);
    const description = question.description === undefined ? undefined : redactor.text(question.description);
    onWaiting(true);
    try {
      const response = await ctx.requestAction({
        kind: question.type === 'approve' ? 'approval' : 'input',
        title: clip(redactor.text(question.title), 1000),
        ...(description === undefined ? {} : { description: clip(description, 10_000) }),
        payload: truncated ? { truncated, payload } : payload,
        signal,
      });
      send(answerTo(question, response));
    } catch (error) {
      if (!signal.aborted && !ctx.signal.aborted) onFailure(error);
    } finally {
      onWaiting(false);
    }
  }
}

function answerTo(question: Question, response: ActionResponse): JsonObject {
  return {
    type: 'answer',
    id: question.id,
    ...(question.type === 'approve' ? { approved: response.approved === true } : {}),
    ...(response.value === undefined ? {} : { value: response.value }),
  };
}
