/**
 * Answers an agent's permission requests without a person, where the worker's policy or an earlier answer says so. Every
 * such answer is handed to the log as a `provider.event` that names the rule, before the agent gets it; it is written
 * there soon after, not waited for.
 */
import type { ActionResponse, ApprovalOption } from '../../protocol/action.js';
import type { Json, JsonObject } from '../../protocol/json.js';
import type { ToolFacts } from '../policy/decide.js';
import { commandIn, Places } from '../policy/facts.js';
import { MAX_REMEMBERED, onlyOption, onRecord, Policy } from '../policy/policy.js';
import { questionKey, type Scope } from '../policy/remembered.js';
import type { Rule } from '../policy/rules.js';
import { boundJson } from '../process/bound.js';
import { isObject } from './message.js';

/** Of what an event shows of a tool call; whole, it is in the agent's own updates. */
const MAX_SHOWN = 4096;
export interface JudgeOptions {
  readonly agent: string;
  /** Absolute path of the folder that the agent works in. */
  readonly workspace: string;
  readonly rules: readonly Rule[];
  /** For how long a person's answer may stand, beyond once. */
  readonly scopes: readonly Scope[];
  /** Answers that stand for the whole conversation. */
  readonly conversation: {
    answerOf(key: string): boolean | undefined;
    remember(key: string, approved: boolean): Promise<void>;
  };
  /** What a tool call was announced with. */
  toolKind(toolCallId: string): string | undefined;
  note(name: string, data: JsonObject): Promise<void>;
}

type ToolCall = Readonly<Record<string, unknown>>;

export class Judge {
  readonly #options: JudgeOptions;
  readonly #policy: Policy;
  readonly #execution = new Map<string, boolean>();

  constructor(options: JudgeOptions) {
    this.#options = options;
    const { rules, workspace, scopes, conversation } = options;
    const remembered = (key: string, scope: Scope) =>
      scope === 'execution' ? this.#execution.get(key) : conversation.answerOf(key);
    this.#policy = new Policy({ rules, workspace, scopes, remembered });
  }

  /** The agent's option that answers the request, or undefined when a person is to be asked. */
  async answer(toolCall: ToolCall, options: readonly ApprovalOption[]): Promise<ApprovalOption | undefined> {
    const verdict = await this.#policy.verdict([this.#facts(toolCall)], this.#key(toolCall));
    if (verdict === undefined || verdict.answer === 'ask') return undefined;
    const option = onlyOption(options, verdict.answer === 'allow');
    if (option !== undefined) await this.#options.note(...onRecord.answered(verdict, this.#shown(toolCall), option));
    return option;
  }

  /** Takes note of a person's answer, where it is to stand for longer. */
  async learn(toolCall: ToolCall, response: ActionResponse): Promise<void> {
    const standing = this.#policy.standing(response);
    if (standing === undefined) return;
    const { conversation, note } = this.#options;
    if (!standing.isAllowed) return await note(...onRecord.refused(standing, this.#shown(toolCall)));
    const key = this.#key(toolCall);
    const { scope, approved } = standing;
    if (this.#execution.size < MAX_REMEMBERED) this.#execution.set(key, approved);
    if (scope === 'conversation') await conversation.remember(key, approved);
    await note(...onRecord.remembered(standing, key, this.#shown(toolCall)));
  }

  #kind({ kind, toolCallId }: ToolCall): string | undefined {
    if (typeof kind === 'string') return kind;
    return typeof toolCallId === 'string' ? this.#options.toolKind(toolCallId) : undefined;
  }

  #facts(toolCall: ToolCall): ToolFacts {
    const { agent, workspace } = this.#options;
    const input = isObject(toolCall.rawInput) ? toolCall.rawInput : {};
    const command = commandIn(input);
    const places = new Places(workspace);
    for (const each of listOf(toolCall.locations)) places.add(each.path);
    for (const each of listOf(toolCall.content)) if (each.type === 'diff') places.add(each.path);
    places.addFields(input);
    return {
      source: agent,
      tool: this.#kind(toolCall),
      isKind: true,
      paths: [...places.paths],
      hasUnknownPlace: places.hasUnknown,
      ...(command === undefined ? {} : { command }),
    };
  }

  /** The question without what is new each time. */
  #key(toolCall: ToolCall): string {
    const { toolCallId: _, status: __, ...asked } = toolCall;
    const { agent, workspace } = this.#options;
    const kind = this.#kind(toolCall) ?? null;
    return questionKey({ agent, workspace, kind, asked: boundJson(asked, Number.POSITIVE_INFINITY).value });
  }

  #shown(toolCall: ToolCall): JsonObject {
    const { toolCallId, title, kind = this.#kind(toolCall), locations, rawInput } = toolCall;
    return { toolCall: boundJson({ toolCallId, title, kind, locations, rawInput }, MAX_SHOWN).value as Json };
  }
}

function listOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
