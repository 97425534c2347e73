/**
 * The worker's policy over the approvals that a command asks for. What they are about is read from the payload: `tool`,
 * `command` or `cmd` (with `args`), and fields that name files; the same in objects and lists in it.
 */
import { type ActionResponse, approvalOptions } from '../../protocol/action.js';
import type { JsonObject } from '../../protocol/json.js';
import type { ToolFacts } from '../policy/decide.js';
import { commandIn, type Fields, Places } from '../policy/facts.js';
import { onlyOption, onRecord } from '../policy/policy.js';
import { questionKey, type Scope } from '../policy/remembered.js';
import type { Rule } from '../policy/rules.js';
import { StandingPolicy } from '../policy/standing.js';
import { boundJson } from '../process/bound.js';
import type { Question } from './events.js';
import type { CommandMemory } from './memory.js';

/** Of what an event shows of an approval. */
const MAX_SHOWN = 4096;

export interface ApprovalsOptions {
  /** The command, by its name in the configuration. */
  readonly program: string;
  /** Absolute path of the folder in which it runs. */
  readonly cwd: string;
  readonly rules: readonly Rule[];
  readonly scopes: readonly Scope[];
  readonly memory: CommandMemory;
  /** Hands on what is remembered to the next turn. */
  keep(): Promise<void>;
  note(name: string, data: JsonObject): Promise<void>;
}

export class Approvals {
  readonly #options: ApprovalsOptions;
  readonly #policy: StandingPolicy;

  constructor(options: ApprovalsOptions) {
    const { rules, scopes, cwd, memory, keep, note } = options;
    this.#options = options;
    const conversation = {
      answerOf: (key: string) => memory.answers.of(key),
      remember: async (key: string, approved: boolean) => {
        memory.answers.remember(key, approved);
        await keep();
      },
    };
    this.#policy = new StandingPolicy({ rules, scopes, workspace: cwd, conversation, note });
  }

  /** The answer that needs no person, or undefined. Its record is handed to the log first, and written there soon after. */
  async answer(question: Question): Promise<ActionResponse | undefined> {
    const verdict = await this.#policy.verdict(this.#facts(question), this.#key(question));
    if (verdict === undefined) return undefined;
    const approved = verdict.answer === 'allow';
    const options = approvalOptions(boundJson(question.payload ?? null, Number.POSITIVE_INFINITY).value);
    const option = options === undefined ? undefined : onlyOption(options, approved);
    // Of several equal options only a person can choose.
    if (options !== undefined && option === undefined) return undefined;
    await this.#options.note(...onRecord.answered(verdict, shown(question), option));
    return option === undefined ? { approved } : { approved, value: { optionId: option.id } };
  }

  /** Takes note of a person's answer, where it is to stand for longer. */
  async learn(question: Question, response: ActionResponse): Promise<void> {
    await this.#policy.learn(response, this.#key(question), shown(question));
  }

  #facts({ payload }: Question): ToolFacts {
    const { program, cwd } = this.#options;
    const given = isObject(payload) ? payload : {};
    const command = commandIn(given);
    const places = new Places(cwd);
    places.addFields(given);
    return {
      source: program,
      ...(typeof given.tool === 'string' ? { tool: given.tool } : {}),
      paths: [...places.paths],
      hasUnknownPlace: places.hasUnknown,
      ...(command === undefined ? {} : { command }),
    };
  }

  /** The question without its id, which is new each time. */
  #key({ title, description, payload = null }: Question): string {
    const { program, cwd } = this.#options;
    const asked = boundJson({ title, description: description ?? null, payload }, Number.POSITIVE_INFINITY).value;
    return questionKey({ program, cwd, asked });
  }
}

function shown({ id, title, payload = null }: Question): JsonObject {
  return { asked: boundJson({ id, title, payload }, MAX_SHOWN).value };
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
