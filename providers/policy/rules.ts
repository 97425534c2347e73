/** The rules by which a worker answers permission requests before a person is asked. */
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { name, text } from '../process/options.js';
import { commandLine } from './words.js';

/** ACP's kinds of tools. */
const TOOL_KINDS = [
  'read',
  'edit',
  'delete',
  'move',
  'search',
  'execute',
  'think',
  'fetch',
  'switch_mode',
  'other',
] as const;

/** The words that a command rule asks for, or why it cannot be one. */
function commandProblem(command: string): string | undefined {
  const line = commandLine(command);
  if (line.kind === 'plain' && line.words.length > 0) return undefined;
  return 'must be plain words: no operators, substitutions, variables, patterns or assignments (such a command is always asked about)';
}

function pathProblem(path: string): string | undefined {
  if (path === '') return 'must not be empty; "." is the whole workspace';
  return path.split('/').includes('..') ? 'must not hold ".."' : undefined;
}

/** A tool by its name, or all whose names begin as what stands before a `*`. */
const toolName = text.regex(/^[^*]{1,200}\*?$/, 'must be the name of a tool, or the beginning of one and "*"');

/** The same for a model, whose tools have names that its API takes. Any other would never match. */
const modelToolName = text.regex(
  /^[A-Za-z0-9_-]{1,64}\*?$/,
  'must be the name of a tool as the model knows it (1–64 of A–Z a–z 0–9 _ -), or the beginning of one and "*"',
);

const fields = {
  /** What the log calls it; by default its place, such as `policy.0`. */
  name: z.string().min(1).max(100).optional(),
  /** Requests about this file or folder and all below it: relative to the workspace, or absolute. */
  path: text.superRefine((path, ctx) => addProblem(ctx, pathProblem(path))).optional(),
  /** Requests to run a command that begins with these words. */
  command: text.superRefine((command, ctx) => addProblem(ctx, commandProblem(command))).optional(),
  answer: z.enum(['allow', 'ask', 'deny']),
};

function addProblem(ctx: z.core.$RefinementCtx, message: string | undefined): void {
  if (message !== undefined) ctx.addIssue({ code: 'custom', message });
}

const notBoth = (rule: { command?: string | undefined; path?: string | undefined }) =>
  rule.command === undefined || rule.path === undefined;
const NOT_BOTH = 'has both "command" and "path": a command does not say which files it touches';

/** Rules for agents, which tell the kind of a tool and not its name. */
const ruleSchema = z
  .strictObject({
    ...fields,
    /** Requests of this agent. */
    agent: name.optional(),
    /** Requests for a tool of this kind. */
    tool: z.enum(TOOL_KINDS).optional(),
  })
  .refine(notBoth, NOT_BOTH)
  .refine((rule) => rule.command === undefined || rule.tool === undefined || rule.tool === 'execute', {
    message: 'has a "command", which goes with the tool "execute" only',
  });
export type PolicyRule = z.input<typeof ruleSchema>;
export const policySchema = rulesSchema(ruleSchema);

/** Rules for the calls of a model. */
const modelRuleSchema = z
  .strictObject({
    ...fields,
    /** Calls of this model, by its name in the configuration. */
    model: z.string().min(1).optional(),
    tool: modelToolName.optional(),
  })
  .refine(notBoth, NOT_BOTH);
export type ModelPolicyRule = z.input<typeof modelRuleSchema>;
export const modelPolicySchema = rulesSchema(modelRuleSchema);

/** Rules for the approvals that a program asks for. */
const programRuleSchema = z
  .strictObject({
    ...fields,
    /** Approvals of this program, by its name in the configuration. */
    program: name.optional(),
    /** Approvals whose payload names this tool. */
    tool: toolName.optional(),
  })
  .refine(notBoth, NOT_BOTH);
export type ProgramPolicyRule = z.input<typeof programRuleSchema>;
export const programPolicySchema = rulesSchema(programRuleSchema);

function rulesSchema<T extends z.ZodType>(rule: T): z.ZodArray<T> {
  return z.array(rule).max(1000);
}

type Parsed = Omit<z.output<typeof ruleSchema>, 'tool'> & {
  readonly tool?: string | undefined;
  readonly model?: string | undefined;
  readonly program?: string | undefined;
};

/** A rule as it is matched. */
export interface Rule {
  readonly name: string;
  readonly answer: Parsed['answer'];
  /** The agent, model or program that asks. */
  readonly source?: string | undefined;
  readonly tool?: string | undefined;
  readonly path?: { readonly words: string; readonly isAbsolute: boolean } | undefined;
  readonly command?: readonly string[] | undefined;
}

export function rulesOf(parsed: readonly Parsed[]): Rule[] {
  return parsed.map(({ name: given, answer, agent, model, program, tool, path, command }, index) => {
    const line = command === undefined ? undefined : commandLine(command);
    return {
      name: given ?? `policy.${index}`,
      answer,
      source: agent ?? model ?? program,
      tool,
      path: path === undefined ? undefined : { words: path, isAbsolute: isAbsolute(path) },
      command: line?.kind === 'plain' ? line.words : undefined,
    };
  });
}
