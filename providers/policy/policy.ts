/**
 * What answers a request for permission in the place of a person: a rule, or what a person said to the same question
 * before. A rule that denies goes before what was said, and what was said before rules that ask or allow.
 */
import type { ActionResponse, ApprovalOption } from '../../protocol/action.js';
import type { JsonObject } from '../../protocol/json.js';
import { decideAll, type ToolFacts } from './decide.js';
import { type Scope, scopeOf } from './remembered.js';
import type { Rule } from './rules.js';

/** Answers of one execution that are remembered. */
export const MAX_REMEMBERED = 1000;

export interface Verdict {
  readonly answer: 'allow' | 'ask' | 'deny';
  /** For the record: the `rule`, or the question that was answered before (`remembered`). */
  readonly why: { readonly rule: string } | { readonly remembered: string };
}

export interface PolicyOptions {
  readonly rules: readonly Rule[];
  /** Absolute path of the folder that is worked in, where there is one. */
  readonly workspace: string | undefined;
  /** For how long a person's answer may stand, beyond once. */
  readonly scopes: readonly Scope[];
  /** What a person said to this question for as long as `scope` says, where it stands. */
  remembered(question: string, scope: Scope): boolean | undefined;
}

/** What is to be remembered of a person's answer. */
export interface Standing {
  readonly scope: Scope;
  readonly approved: boolean;
  /** The worker lets it stand. */
  readonly isAllowed: boolean;
}

export class Policy {
  readonly #options: PolicyOptions;

  constructor(options: PolicyOptions) {
    this.#options = options;
  }

  /**
   * Undefined when there is nothing to say. `facts` are the request in each way in which it may be meant; `question` is
   * its key (`questionKey`).
   */
  async verdict(facts: readonly ToolFacts[], question: string): Promise<Verdict | undefined> {
    const { rules, workspace } = this.#options;
    const decision = await decideAll(rules, facts, workspace);
    const ruled = decision === undefined ? undefined : { answer: decision.answer, why: { rule: decision.rule } };
    if (ruled?.answer === 'deny') return ruled;
    const said = this.#remembered(question);
    return said === undefined ? ruled : { answer: said ? 'allow' : 'deny', why: { remembered: question } };
  }

  /** A worker that lets answers stand no more does not go by those of before either. */
  #remembered(question: string): boolean | undefined {
    const { scopes, remembered } = this.#options;
    for (const scope of ['execution', 'conversation'] as const) {
      const said = scopes.includes(scope) ? remembered(question, scope) : undefined;
      if (said !== undefined) return said;
    }
    return undefined;
  }

  /** Whether a person's answer is to stand for longer than once; undefined for once. */
  standing(response: ActionResponse): Standing | undefined {
    const scope = scopeOf(response);
    const { approved } = response;
    if (scope === undefined || approved === undefined) return undefined;
    return { scope, approved, isAllowed: this.#options.scopes.includes(scope) };
  }
}

/** The option that says so for once; undefined when it is not exactly one, since of several only a person can choose. */
export function onlyOption(options: readonly ApprovalOption[], approved: boolean): ApprovalOption | undefined {
  const fitting = options.filter(({ kind }) => kind === (approved ? 'allow_once' : 'reject_once'));
  return fitting.length === 1 ? fitting[0] : undefined;
}

/** The events by which automatic answers are on record. `asked` is the request in short. */
export const onRecord = {
  answered: ({ answer, why }: Verdict, asked: JsonObject, option?: ApprovalOption) =>
    [
      'policy.answered',
      { ...why, approved: answer === 'allow', ...(option === undefined ? {} : { optionId: option.id }), ...asked },
    ] as const,
  remembered: ({ scope, approved }: Standing, question: string, asked: JsonObject) =>
    ['policy.remembered', { scope, approved, question, ...asked }] as const,
  refused: ({ scope }: Standing, asked: JsonObject) => ['policy.scope_refused', { scope, ...asked }] as const,
};
