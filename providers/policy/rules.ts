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

const ruleSchema = z
  .strictObject({
    /** What the log calls it; by default its place, such as `policy.0`. */
    name: z.string().min(1).max(100).optional(),
    /** Requests of this agent. */
    agent: name.optional(),
    /** Requests for a tool of this kind. */
    tool: z.enum(TOOL_KINDS).optional(),
    /** Requests about this file or folder and all below it: relative to the workspace, or absolute. */
    path: text.superRefine((path, ctx) => addProblem(ctx, pathProblem(path))).optional(),
    /** Requests to run a command that begins with these words. */
    command: text.superRefine((command, ctx) => addProblem(ctx, commandProblem(command))).optional(),
    answer: z.enum(['allow', 'ask', 'deny']),
  })
  .refine((rule) => rule.command === undefined || rule.path === undefined, {
    message: 'has both "command" and "path": a command does not say which files it touches',
  })
  .refine((rule) => rule.command === undefined || rule.tool === undefined || rule.tool === 'execute', {
    message: 'has a "command", which goes with the tool "execute" only',
  });

function addProblem(ctx: z.core.$RefinementCtx, message: string | undefined): void {
  if (message !== undefined) ctx.addIssue({ code: 'custom', message });
}

export const policySchema = z.array(ruleSchema).max(1000);
export type PolicyRule = z.input<typeof ruleSchema>;
type ParsedRule = z.output<typeof ruleSchema>;

/** A rule as it is matched. */
export interface Rule {
  readonly name: string;
  readonly answer: ParsedRule['answer'];
  readonly agent?: string | undefined;
  readonly tool?: string | undefined;
  readonly path?: { readonly words: string; readonly isAbsolute: boolean } | undefined;
  readonly command?: readonly string[] | undefined;
}

export function rulesOf(parsed: readonly ParsedRule[]): Rule[] {
  return parsed.map(({ name: given, answer, agent, tool, path, command }, index) => {
    const line = command === undefined ? undefined : commandLine(command);
    return {
      name: given ?? `policy.${index}`,
      answer,
      agent,
      tool,
      path: path === undefined ? undefined : { words: path, isAbsolute: isAbsolute(path) },
      command: line?.kind === 'plain' ? line.words : undefined,
    };
  });
}
