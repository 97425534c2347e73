/**
 * Answers an agent's permission requests without a person, where the worker's policy or an earlier answer says so. Every
 * such answer is handed to the log as a `provider.event` that names the rule, before the agent gets it; it is written
 * there soon after, not waited for.
 */
import type { ActionResponse, ApprovalOption } from '../../protocol/action.js';
import type { Json, JsonObject } from '../../protocol/json.js';
import type { ToolFacts } from '../policy/decide.js';
import { commandIn, Places } from '../policy/facts.js';
import { onlyOption, onRecord } from '../policy/policy.js';
import { questionKey } from '../policy/remembered.js';
import { StandingPolicy, type StandingPolicyOptions } from '../policy/standing.js';
import { boundJson } from '../process/bound.js';
import { isObject } from './message.js';

/** Of what an event shows of a tool call; whole, it is in the agent's own updates. */
const MAX_SHOWN = 4096;

export interface JudgeOptions extends StandingPolicyOptions {
  readonly agent: string;
  /** What a tool call was announced with. */
  toolKind(toolCallId: string): string | undefined;
}

type ToolCall = Readonly<Record<string, unknown>>;

export class Judge {
  readonly #options: JudgeOptions;
  readonly #policy: StandingPolicy;

  constructor(options: JudgeOptions) {
    this.#options = options;
    this.#policy = new StandingPolicy(options);
  }

  /** The agent's option that answers the request, or undefined when a person is to be asked. */
  async answer(toolCall: ToolCall, options: readonly ApprovalOption[]): Promise<ApprovalOption | undefined> {
    const verdict = await this.#policy.verdict(this.#facts(toolCall), this.#key(toolCall));
    if (verdict === undefined) return undefined;
    const option = onlyOption(options, verdict.answer === 'allow');
    if (option !== undefined) await this.#options.note(...onRecord.answered(verdict, this.#shown(toolCall), option));
    return option;
  }

  /** Takes note of a person's answer, where it is to stand for longer. */
  async learn(toolCall: ToolCall, response: ActionResponse): Promise<void> {
    await this.#policy.learn(response, this.#key(toolCall), this.#shown(toolCall));
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
