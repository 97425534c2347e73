/**
 * What is on record of an execution at the other end: enough for the next attempt to go on with that one, and with no
 * other. Only what is new is recorded.
 */
import { z } from 'zod';
import { actionResponseSchema } from '../../protocol/action.js';
import type { Json } from '../../protocol/json.js';
import type { RunContext } from '../provider.js';

const entrySchema = z.union([
  /** About to start in this conversation, with these capabilities required: both are part of what the key stands for. */
  z.strictObject({ start: z.strictObject({ conversationId: z.string(), requires: z.array(z.string()) }) }),
  z.strictObject({ executionId: z.string() }),
  /** All events up to this one are in our log. */
  z.strictObject({ after: z.int() }),
  /** A person's answer that the other end has to get. */
  z.strictObject({ answer: z.strictObject({ actionId: z.string(), response: actionResponseSchema }) }),
  /** It has it, or has refused it. */
  z.strictObject({ answered: z.string() }),
]);
type Entry = z.infer<typeof entrySchema>;

export type Answer = Extract<Entry, { answer: unknown }>['answer'];

export class Journal {
  start: Extract<Entry, { start: unknown }>['start'] | undefined;
  executionId: string | undefined;
  after = 0;
  /** An answer that may not have reached the other end. */
  readonly undelivered = new Map<string, Answer>();
  /** How many answers to an action were delivered. */
  readonly rounds = new Map<string, number>();

  constructor(private readonly ctx: RunContext<unknown>) {
    for (const entry of ctx.resume?.journal ?? []) this.apply(entrySchema.parse(entry));
  }

  /** Resolves when it is durable, with all that was emitted before. */
  async record(entry: Entry): Promise<void> {
    this.apply(entry);
    await this.ctx.record(entry as Json);
  }

  private apply(entry: Entry): void {
    if ('start' in entry) this.start = entry.start;
    else if ('executionId' in entry) this.executionId = entry.executionId;
    else if ('after' in entry) this.after = entry.after;
    else if ('answer' in entry) this.undelivered.set(entry.answer.actionId, entry.answer);
    else {
      this.undelivered.delete(entry.answered);
      this.rounds.set(entry.answered, (this.rounds.get(entry.answered) ?? 0) + 1);
    }
  }
}
