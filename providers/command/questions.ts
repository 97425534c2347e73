/** Questions of a command to a person, and the lines that answer them. */
import type { ActionResponse } from '../../protocol/action.js';
import { HoldfastError } from '../../protocol/errors.js';
import { clip, type JsonObject } from '../../protocol/json.js';
import { KIB } from '../../protocol/limits.js';
import type { Redactor } from '../process/redact.js';
import type { ActionQuestion, RunContext } from '../provider.js';
import type { Approvals } from './approvals.js';
import type { Question } from './events.js';
import { CommandFailure } from './failure.js';
import type { Output } from './output.js';

const MAX_PAYLOAD = 48 * KIB;
/** Questions that may wait at once. */
const MAX_OPEN = 100;

export interface QuestionsOptions {
  readonly ctx: RunContext;
  readonly output: Output;
  readonly redactor: Redactor;
  readonly approvals: Pick<Approvals, 'answer' | 'learn'>;
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
  #tail: Promise<unknown> = Promise.resolve();

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
    void this.#settle(question).finally(() => {
      this.#open -= 1;
    });
  }

  async #settle(question: Question): Promise<void> {
    const { ctx, send, onFailure } = this.#options;
    try {
      const response = (await this.#automatic(question)) ?? (await this.#person(question));
      // Nobody waits for it any more, and what it would set off has no end that is seen.
      if (this.#closing.signal.aborted || ctx.signal.aborted) return;
      send(answerTo(question, response));
    } catch (error) {
      if (!this.#closing.signal.aborted && !ctx.signal.aborted) onFailure(asFailure(error, question));
    }
  }

  async #automatic(question: Question): Promise<ActionResponse | undefined> {
    return question.type === 'approve' ? await this.#options.approvals.answer(question) : undefined;
  }

  /** One question after the other: what a person says to one may answer the next. */
  async #person(question: Question): Promise<ActionResponse> {
    const { approvals, onWaiting } = this.#options;
    const mine = this.#tail.then(async () => {
      const automatic = await this.#automatic(question);
      if (automatic !== undefined) return automatic;
      const response = await this.#request(question);
      if (question.type === 'approve') await approvals.learn(question, response);
      return response;
    });
    this.#tail = mine.catch(() => {});
    onWaiting(true);
    return await mine.finally(() => onWaiting(false));
  }

  async #request(question: Question): Promise<ActionResponse> {
    const { ctx, output, redactor } = this.#options;
    const { value: payload, truncated } = output.bounded(question.payload ?? null, MAX_PAYLOAD);
    const description = question.description === undefined ? undefined : redactor.text(question.description);
    return await ctx.requestAction({
      kind: question.type === 'approve' ? 'approval' : 'input',
      title: clip(redactor.text(question.title), 1000),
      ...(description === undefined ? {} : { description: clip(description, 10_000) }),
      payload: truncated ? { truncated, payload } : payload,
      ...this.#terms(question),
      signal: this.#closing.signal,
    });
  }

  /** As the command gave them: the runtime checks them. */
  #terms({ timeoutSeconds, expiresAt, onExpiry, valueSchema }: Question): Partial<ActionQuestion> {
    const { output } = this.#options;
    const schema =
      valueSchema === undefined ? {} : { valueSchema: output.bounded(valueSchema, Number.POSITIVE_INFINITY).value };
    const given = { timeoutSeconds, expiresAt, onExpiry };
    const told = Object.entries(given).filter(([, value]) => value !== undefined);
    return { ...Object.fromEntries(told), ...schema } as Partial<ActionQuestion>;
  }
}

/** The runtime does not take the question as it is. */
function asFailure(error: unknown, { title }: Question): unknown {
  return error instanceof HoldfastError && error.code === 'PROVIDER_ERROR'
    ? new CommandFailure(`asked "${clip(title, 200)}", which cannot be asked: ${error.message}`)
    : error;
}

function answerTo(question: Question, response: ActionResponse): JsonObject {
  return {
    type: 'answer',
    id: question.id,
    ...(question.type === 'approve' ? { approved: response.approved === true } : {}),
    ...(response.value === undefined ? {} : { value: response.value }),
    ...(response.metadata?.expired === true ? { expired: true } : {}),
  };
}
