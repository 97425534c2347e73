/**
 * What a worker's configuration says about its commands, and what a request may pick from it. A request names things; it
 * never carries a command, an argument, a path or a variable (DESIGN §4).
 */
import { z } from 'zod';
import { milliseconds } from '../../protocol/duration.js';
import { idSchema } from '../../protocol/ids.js';
import { scopeSchema } from '../policy/remembered.js';
import { programPolicySchema } from '../policy/rules.js';
import {
  type ChosenPlace,
  checkedOptions,
  checkPlaces,
  chosen,
  chosenPlace,
  harnessFields,
  MIB,
  name,
  ONE_PLACE,
  onePlace,
  pickOf,
} from '../process/options.js';
import { checkRoot, rootSchema, workspacesSchema } from '../workspace/options.js';

const commandSchema = z
  .strictObject({
    ...harnessFields,
    /** `text`: the prompt as it is, then the end of the input. `ndjson`: a line, and the input stays open for answers. */
    input: z.enum(['text', 'ndjson']).default('text'),
    /** `text`: all that it writes. `ndjson`: one event a line. */
    output: z.enum(['text', 'ndjson']),
    /** From its start to its end, without the time in which a person is asked. */
    timeoutMs: milliseconds.optional(),
  })
  .refine(onePlace, ONE_PLACE)
  .refine((command) => command.input === 'text' || command.output === 'ndjson', {
    message: 'input "ndjson" goes with output "ndjson"',
  });

const optionsSchema = z
  .strictObject({
    id: idSchema.default('command'),
    name: z.string().min(1).max(200).default('Command'),
    commands: z.record(name, commandSchema).refine((commands) => Object.keys(commands).length > 0, 'names no command'),
    /** Which command a request gets that names none. Needed only when there are several. */
    defaultCommand: name.optional(),
    /** What requests may name to work in. */
    workspaces: workspacesSchema.default({}),
    /** Where workspaces of the kinds `scratch` and `git` are kept. */
    workspaceRoot: rootSchema.optional(),
    /** Rules that answer the approvals of commands before a person is asked. Deny wins; what no rule allows is asked. */
    policy: programPolicySchema.default([]),
    /** For how long a person's answer may stand beyond once, if its `metadata.scope` says so. */
    scopes: z.array(scopeSchema).default(['execution', 'conversation']),
    /** Of a command that sets none itself. */
    timeoutMs: milliseconds.default(30 * 60_000),
    /** For a command to exit by itself once it has said its result, or closed its output. */
    exitGraceMs: milliseconds.default(5000),
    /** Of one line, with output `ndjson`. A longer one ends the run. */
    maxLineBytes: z
      .int()
      .min(1024)
      .max(256 * MIB)
      .default(32 * MIB),
    /** Of all that it writes, with output `text`. More ends the run. */
    maxOutputBytes: z
      .int()
      .min(1024)
      .max(1024 * MIB)
      .default(32 * MIB),
  })
  .superRefine(({ commands, defaultCommand, workspaces, workspaceRoot, policy }, ctx) => {
    checkPlaces(ctx, { list: 'commands', fallback: 'defaultCommand' }, commands, defaultCommand, workspaces);
    checkRoot(ctx, workspaces, workspaceRoot);
    for (const [index, { program }] of policy.entries())
      if (program !== undefined && !Object.hasOwn(commands, program)) {
        const message = `"${program}" is not in "commands"`;
        ctx.addIssue({ code: 'custom', path: ['policy', index, 'program'], message });
      }
  });

/** What `commandProvider` takes. */
export type CommandOptions = z.input<typeof optionsSchema>;
export type ResolvedOptions = z.output<typeof optionsSchema>;

/** A request's `config`. */
export interface CommandConfig {
  /** One of the configured commands. */
  command?: string | undefined;
  /** One of the configured workspaces. */
  workspace?: string | undefined;
}

/** Checks the worker's configuration. Throws `VALIDATION_ERROR` that names each wrong place. */
export function resolveOptions(options: CommandOptions): ResolvedOptions {
  return checkedOptions('commandProvider', optionsSchema, options);
}

/** The schema of `config`. It lists the names there are, so callers learn them from the manifest. */
export function configSchema(options: ResolvedOptions): z.ZodType<CommandConfig> {
  const commands = Object.keys(options.commands);
  const workspaces = Object.keys(options.workspaces);
  const needsCommand = options.defaultCommand === undefined && commands.length > 1;
  return z.strictObject({
    command: needsCommand ? z.enum(commands) : z.enum(commands).optional(),
    workspace: pickOf(workspaces, 'workspaces'),
  });
}

/** What a request has chosen. */
export interface Choice extends ChosenPlace {
  readonly name: string;
  readonly settings: ResolvedOptions['commands'][string];
  readonly timeoutMs: number;
}

/** What one run starts, and where. */
export interface Launch extends Pick<Choice, 'name' | 'settings' | 'timeoutMs'> {
  readonly cwd: string;
}

/** Looks up what a request named. Throws `VALIDATION_ERROR` for a name that is not there or is missing. */
export function choose(options: ResolvedOptions, config: CommandConfig): Choice {
  const { name, settings } = chosen('command', options.commands, config.command, options.defaultCommand);
  const timeoutMs = settings.timeoutMs ?? options.timeoutMs;
  return { name, settings, timeoutMs, ...chosenPlace('command', name, settings, config.workspace, options.workspaces) };
}
