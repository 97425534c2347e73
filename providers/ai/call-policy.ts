/** The worker's policy over the calls of a model; what it answers is staged for the log beside the call's own entry. */
import type { ActionResponse } from '../../protocol/action.js';
import type { Json, JsonObject } from '../../protocol/json.js';
import type { ToolFacts } from '../policy/decide.js';
import { commandIn, type Fields, Places } from '../policy/facts.js';
import { MAX_REMEMBERED, onRecord, Policy, type Verdict } from '../policy/policy.js';
import { questionKey, RememberedAnswers, type Scope } from '../policy/remembered.js';
import type { Rule } from '../policy/rules.js';
import { type CommandLine, commandLine } from '../policy/words.js';
import { boundJson } from '../process/bound.js';
import type { Call, CallAnswer } from './journal.js';
import type { Recorder } from './recorder.js';

/** Of what an event shows of a call; more of it is in `ai.tool_call`. */
const MAX_SHOWN = 4096;

export interface CallPolicyOptions {
  readonly model: string;
  readonly rules: readonly Rule[];
  readonly scopes: readonly Scope[];
  readonly workspace: string | undefined;
  readonly recorder: Recorder;
  /** What earlier turns of the conversation handed on. */
  readonly session: Json | undefined;
}

export class CallPolicy {
  readonly #options: CallPolicyOptions;
  readonly #policy: Policy;
  readonly #conversation: RememberedAnswers;

  constructor(options: CallPolicyOptions) {
    const { rules, workspace, scopes, recorder } = options;
    this.#options = options;
    this.#conversation = new RememberedAnswers(options.session);
    const remembered = (key: string, scope: Scope) =>
      scope === 'execution' ? recorder.state.standing.get(key) : this.#conversation.of(key);
    this.#policy = new Policy({ rules, workspace, scopes, remembered });
  }

  /** `parsed` is what the tool gets of the call's input: rules hold for what was sent and for what is made of it. */
  async verdict(call: Call, parsed: unknown): Promise<Verdict | undefined> {
    const { model, workspace } = this.#options;
    return await this.#policy.verdict(callFacts({ model, workspace, ...call, parsed }), this.#key(call));
  }

  /** Stages the record of an automatic answer. */
  answered(call: Call, verdict: Verdict): CallAnswer {
    const { recorder } = this.#options;
    recorder.event(...onRecord.answered(verdict, shown(call)));
    return { approved: verdict.answer === 'allow', ...('rule' in verdict.why ? { rule: verdict.why.rule } : {}) };
  }

  /** Stages what is to be remembered of a person's answer: the question, when it stands for the execution. */
  learn(call: Call, response: ActionResponse): string | undefined {
    const standing = this.#policy.standing(response);
    if (standing === undefined) return undefined;
    const { recorder } = this.#options;
    if (!standing.isAllowed) {
      recorder.event(...onRecord.refused(standing, shown(call)));
      return undefined;
    }
    const key = this.#key(call);
    if (standing.scope === 'conversation') {
      this.#conversation.remember(key, standing.approved);
      recorder.session({ answers: Object.fromEntries(this.#conversation.newest()) });
    }
    recorder.event(...onRecord.remembered(standing, key, shown(call)));
    return recorder.state.standing.size < MAX_REMEMBERED ? key : undefined;
  }

  #key({ tool, input }: Call): string {
    return questionKey({ model: this.#options.model, tool, input });
  }
}

/** A call as it was sent, and as its tool gets it. */
export function callFacts(call: {
  readonly model: string;
  readonly workspace: string | undefined;
  readonly tool: string;
  readonly input: JsonObject;
  readonly parsed: unknown;
}): ToolFacts[] {
  const { model, workspace, tool, input, parsed } = call;
  return [input, ...(parsed === input ? [] : [parsed])].map((read) => {
    const command = isFields(read) ? commandIn(read) : unreadable(read);
    const places = new Places(workspace);
    if (isFields(read)) places.addFields(read);
    else places.hasUnknown = true;
    return {
      source: model,
      tool,
      paths: [...places.paths],
      hasUnknownPlace: places.hasUnknown,
      ...(command === undefined ? {} : { command }),
    };
  });
}

/** What has no fields may be a command as well as a path. */
function unreadable(read: unknown): CommandLine {
  return { kind: 'compound', words: [], parts: typeof read === 'string' ? commandLine(read).parts : [] };
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function shown({ callId, tool, input }: Call): JsonObject {
  return { toolCall: boundJson({ callId, tool, input }, MAX_SHOWN).value };
}
