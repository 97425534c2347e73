/**
 * Answers that a person gave for longer than once: `metadata.scope` of an answer is `once`, `execution` or
 * `conversation`. The same question, to the letter, is then not asked again.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { ActionResponse } from '../../protocol/action.js';
import { canonicalJson, type Json } from '../../protocol/json.js';

export const scopeSchema = z.enum(['execution', 'conversation']);
export type Scope = z.infer<typeof scopeSchema>;

/** 96 bits: a question that is asked by chance in the place of another is not to be feared. */
const KEY_LENGTH = 16;

/** One question, by all that a person was shown of it and that tells it from another. */
export function questionKey(question: Json): string {
  return createHash('sha256').update(canonicalJson(question)).digest('base64url').slice(0, KEY_LENGTH);
}

/** What an answer says about its scope: undefined for once. */
export function scopeOf(response: ActionResponse): Scope | undefined {
  const parsed = scopeSchema.safeParse(response.metadata?.scope);
  return parsed.success ? parsed.data : undefined;
}

/** Answers that stand for a conversation. */
const MAX_ANSWERS = 64;
const keptSchema = z.object({ answers: z.record(z.string(), z.boolean()) });

/** What a conversation remembers, as a provider hands it on from turn to turn: in `answers` of its session. */
export class RememberedAnswers {
  readonly #answers: Map<string, boolean>;

  /** Takes what an earlier turn handed on. What it cannot read counts as nothing. */
  constructor(session: Json | undefined) {
    const parsed = keptSchema.safeParse(session);
    this.#answers = new Map(Object.entries(parsed.success ? parsed.data.answers : {}));
  }

  of(question: string): boolean | undefined {
    return this.#answers.get(question);
  }

  remember(question: string, approved: boolean): void {
    this.#answers.delete(question);
    this.#answers.set(question, approved);
  }

  /** The newest 64, oldest first. */
  newest(): [string, boolean][] {
    return [...this.#answers].slice(-MAX_ANSWERS);
  }
}
