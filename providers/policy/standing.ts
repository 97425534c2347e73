/** A policy with what people said before: their answers stand for the execution or the conversation, where they may. */
import type { ActionResponse } from '../../protocol/action.js';
import type { JsonObject } from '../../protocol/json.js';
import type { ToolFacts } from './decide.js';
import { MAX_REMEMBERED, onRecord, Policy, type Verdict } from './policy.js';
import type { Scope } from './remembered.js';
import type { Rule } from './rules.js';

export interface StandingPolicyOptions {
  readonly rules: readonly Rule[];
  /** Absolute path of the folder that is worked in. */
  readonly workspace: string;
  /** For how long a person's answer may stand, beyond once. */
  readonly scopes: readonly Scope[];
  /** Answers that stand for the whole conversation. */
  readonly conversation: {
    answerOf(key: string): boolean | undefined;
    remember(key: string, approved: boolean): Promise<void>;
  };
  note(name: string, data: JsonObject): Promise<void>;
}

export class StandingPolicy {
  readonly #options: StandingPolicyOptions;
  readonly #policy: Policy;
  readonly #execution = new Map<string, boolean>();

  constructor(options: StandingPolicyOptions) {
    const { rules, workspace, scopes, conversation } = options;
    this.#options = options;
    const remembered = (key: string, scope: Scope) =>
      scope === 'execution' ? this.#execution.get(key) : conversation.answerOf(key);
    this.#policy = new Policy({ rules, workspace, scopes, remembered });
  }

  /** Undefined when a person is to be asked. `key` is the question's (`questionKey`). */
  async verdict(facts: ToolFacts, key: string): Promise<Verdict | undefined> {
    const verdict = await this.#policy.verdict([facts], key);
    return verdict?.answer === 'ask' ? undefined : verdict;
  }

  /** Takes note of a person's answer, where it is to stand for longer; `shown` is what was asked, in short. */
  async learn(response: ActionResponse, key: string, shown: JsonObject): Promise<void> {
    const standing = this.#policy.standing(response);
    if (standing === undefined) return;
    const { conversation, note } = this.#options;
    if (!standing.isAllowed) return await note(...onRecord.refused(standing, shown));
    const { scope, approved } = standing;
    if (this.#execution.size < MAX_REMEMBERED) this.#execution.set(key, approved);
    if (scope === 'conversation') await conversation.remember(key, approved);
    await note(...onRecord.remembered(standing, key, shown));
  }
}
