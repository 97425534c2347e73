/**
 * Answers an agent's permission requests without a person, where the worker's policy or an earlier answer says so. Every
 * such answer is on record as a `provider.event` that names the rule.
 */
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ActionResponse, ApprovalOption } from '../../protocol/action.js';
import type { Json, JsonObject } from '../../protocol/json.js';
import { decide, type ToolFacts } from '../policy/decide.js';
import { questionKey, type Scope, scopeOf } from '../policy/remembered.js';
import type { Rule } from '../policy/rules.js';
import { type CommandLine, commandLine } from '../policy/words.js';
import { boundJson } from '../process/bound.js';
import { isObject } from './message.js';

/** Of what an event shows of a tool call; whole, it is in the agent's own updates. */
const MAX_SHOWN = 4096;
/** Where a tool's input may name files, or the folder that it works in; written in any way: `file_path`, `filePath`. */
const PATH_FIELD =
  /^(?:(?:abs|absolute|relative|old|new|source|src|target|dest|destination|notebook|input|output)?(?:path|file|filepath|filename)s?|cwd|workdir|workingdir(?:ectory)?|dir(?:ectory)?|folder|source|src|target|dest(?:ination)?|from|to)$/;
const ADDRESS_FIELD = /^ur[il]$/;
const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]+:/;
/** Answers of one execution that are remembered. */
const MAX_REMEMBERED = 1000;

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
  readonly #execution = new Map<string, boolean>();

  constructor(options: JudgeOptions) {
    this.#options = options;
  }

  /** The agent's option that answers the request, or undefined when a person is to be asked. */
  async answer(toolCall: ToolCall, options: readonly ApprovalOption[]): Promise<ApprovalOption | undefined> {
    const verdict = await this.#verdict(toolCall);
    if (verdict === undefined) return undefined;
    const { approved, why } = verdict;
    const fitting = options.filter(({ kind }) => kind === (approved ? 'allow_once' : 'reject_once'));
    const [option] = fitting;
    // Of several equal ones only a person can choose.
    if (option === undefined || fitting.length > 1) return undefined;
    await this.#options.note('policy.answered', { ...why, approved, optionId: option.id, ...this.#shown(toolCall) });
    return option;
  }

  /** Takes note of a person's answer, where it is to stand for longer. */
  async learn(toolCall: ToolCall, response: ActionResponse): Promise<void> {
    const scope = scopeOf(response);
    const { approved } = response;
    if (scope === undefined || approved === undefined) return;
    const { scopes, conversation, note } = this.#options;
    if (!scopes.includes(scope)) return await note('policy.scope_refused', { scope, ...this.#shown(toolCall) });
    const key = this.#key(toolCall);
    if (this.#execution.size < MAX_REMEMBERED) this.#execution.set(key, approved);
    if (scope === 'conversation') await conversation.remember(key, approved);
    await note('policy.remembered', { scope, approved, question: key, ...this.#shown(toolCall) });
  }

  async #verdict(toolCall: ToolCall): Promise<{ approved: boolean; why: JsonObject } | undefined> {
    const { rules, workspace, conversation } = this.#options;
    const decision = await decide(rules, this.#facts(toolCall), workspace);
    if (decision?.answer === 'deny') return { approved: false, why: { rule: decision.rule } };
    const key = this.#key(toolCall);
    const remembered = this.#execution.get(key) ?? conversation.answerOf(key);
    if (remembered !== undefined) return { approved: remembered, why: { remembered: key } };
    return decision?.answer === 'allow' ? { approved: true, why: { rule: decision.rule } } : undefined;
  }

  #kind({ kind, toolCallId }: ToolCall): string | undefined {
    if (typeof kind === 'string') return kind;
    return typeof toolCallId === 'string' ? this.#options.toolKind(toolCallId) : undefined;
  }

  #facts(toolCall: ToolCall): ToolFacts {
    const { agent, workspace } = this.#options;
    const input = isObject(toolCall.rawInput) ? toolCall.rawInput : {};
    const command = commandOf(input.command, input.args) ?? commandOf(input.cmd, input.args);
    const places = new Places(workspace);
    for (const each of listOf(toolCall.locations)) places.add(each.path);
    for (const each of listOf(toolCall.content)) if (each.type === 'diff') places.add(each.path);
    for (const [key, value] of Object.entries(input)) {
      const field = key.replaceAll('_', '').toLowerCase();
      if (PATH_FIELD.test(field)) for (const each of Array.isArray(value) ? value : [value]) places.add(each);
      else if (ADDRESS_FIELD.test(field) && isFileUrl(value)) places.add(value);
    }
    return {
      agent,
      tool: this.#kind(toolCall),
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

function isFileUrl(value: unknown): value is string {
  return typeof value === 'string' && /^file:/i.test(value);
}

/** The absolute paths of what an agent names, and whether there is something that is none. */
class Places {
  readonly paths = new Set<string>();
  hasUnknown = false;

  constructor(private readonly workspace: string) {}

  add(said: unknown): void {
    if (typeof said !== 'string' || said === '') return;
    if (said.startsWith('~')) {
      // Some tools put a home folder there, which one nobody says. A rule that denies the worker's means this too.
      this.hasUnknown = true;
      if (/^~(?:\/|$)/.test(said)) this.paths.add(join(homedir(), said.slice(1)));
    } else if (/^file:/i.test(said)) this.#addUrl(said);
    else if (SCHEME.test(said) && said.includes('://')) this.hasUnknown = true;
    this.paths.add(resolve(this.workspace, said));
  }

  #addUrl(said: string): void {
    try {
      this.paths.add(fileURLToPath(said));
    } catch {
      this.hasUnknown = true;
    }
  }
}

/** A line for a shell, a list of words, or a program with its arguments beside it. */
function commandOf(value: unknown, args: unknown): CommandLine | undefined {
  if (isWords(value)) return commandLine(value);
  if (typeof value !== 'string') return undefined;
  if (args === undefined || args === null) return commandLine(value);
  return isWords(args) ? commandLine([value, ...args]) : { ...commandLine(value), kind: 'compound' };
}

function isWords(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((word) => typeof word === 'string');
}

function listOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
