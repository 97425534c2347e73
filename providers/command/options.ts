/**
 * What a worker's configuration says about its commands, and what a request may pick from it. A request names things; it
 * never carries a command, an argument, a path or a variable (DESIGN §4).
 */
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { HoldfastError } from '../../protocol/errors.js';
import { idSchema } from '../../protocol/ids.js';
import { MARKER_VARIABLE } from '../process/environment.js';

const MIB = 1024 * 1024;
/** setTimeout holds no more (24.8 days). */
const MAX_TIMER_MS = 2 ** 31 - 1;
/** Anything shorter would be found all over an honest text. */
const MIN_SECRET_LENGTH = 4;

const milliseconds = z.int().min(1).max(MAX_TIMER_MS);
const text = z.string().refine((value) => !value.includes('\0'), 'must not hold a NUL character');
const secret = text.min(MIN_SECRET_LENGTH, `is too short to be redacted (under ${MIN_SECRET_LENGTH} characters)`);
const absolutePath = text.refine(isAbsolute, 'must be an absolute path');
const name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'a name is 1–64 of A–Z a–z 0–9 . _ -');
const variable = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'is no name of an environment variable')
  .refine((key) => key !== MARKER_VARIABLE, `${MARKER_VARIABLE} is set by Holdfast`);

const commandSchema = z
  .strictObject({
    /** A name that the child's own PATH resolves, or an absolute path. */
    command: text.refine((command) => command !== '' && (isAbsolute(command) || !/[\\/]/.test(command)), {
      message: 'must be a bare command name or an absolute path: a relative one would be looked up in the workspace',
    }),
    args: z.array(text).optional(),
    /** The directory it works in when the request names no workspace. */
    cwd: absolutePath.optional(),
    /** The same by name, from `workspaces`. */
    workspace: name.optional(),
    /** Its whole environment is `passEnv` (names, taken from ours), `env`, `secretEnv` and two ids. */
    env: z.record(variable, text).optional(),
    passEnv: z.array(variable).optional(),
    /** Like `env`; the exact values are redacted from all that is emitted. */
    secretEnv: z.record(variable, secret).optional(),
    /** More values to redact: those that stand inside other variables, say. */
    secrets: z.array(secret).optional(),
    /** `text`: the prompt as it is, then the end of the input. `ndjson`: a line, and the input stays open for answers. */
    input: z.enum(['text', 'ndjson']).default('text'),
    /** `text`: all that it writes. `ndjson`: one event a line. */
    output: z.enum(['text', 'ndjson']),
    /** From its start to its end, without the time in which a person is asked. */
    timeoutMs: milliseconds.optional(),
  })
  .refine((command) => command.cwd === undefined || command.workspace === undefined, 'has both "cwd" and "workspace"')
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
    /** Directories that requests may name. */
    workspaces: z.record(name, absolutePath).default({}),
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
  .superRefine((options, ctx) => {
    const { commands, defaultCommand, workspaces } = options;
    if (defaultCommand !== undefined && !Object.hasOwn(commands, defaultCommand))
      ctx.addIssue({ code: 'custom', path: ['defaultCommand'], message: `"${defaultCommand}" is not in "commands"` });
    for (const [key, command] of Object.entries(commands)) {
      if (command.workspace !== undefined && !Object.hasOwn(workspaces, command.workspace))
        ctx.addIssue({
          code: 'custom',
          path: ['commands', key, 'workspace'],
          message: `"${command.workspace}" is not in "workspaces"`,
        });
      if (command.cwd === undefined && command.workspace === undefined && Object.keys(workspaces).length === 0)
        ctx.addIssue({
          code: 'custom',
          path: ['commands', key],
          message: 'needs "cwd", "workspace", or "workspaces" for requests to choose from',
        });
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
  const parsed = optionsSchema.safeParse(options);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'options'}: ${issue.message}`);
  throw new HoldfastError('VALIDATION_ERROR', `commandProvider: ${problems.join('; ')}`);
}

/** The schema of `config`. It lists the names there are, so callers learn them from the manifest. */
export function configSchema(options: ResolvedOptions): z.ZodType<CommandConfig> {
  const commands = Object.keys(options.commands);
  const workspaces = Object.keys(options.workspaces);
  const needsCommand = options.defaultCommand === undefined && commands.length > 1;
  return z.strictObject({
    command: needsCommand ? z.enum(commands) : z.enum(commands).optional(),
    workspace:
      workspaces.length === 0
        ? z.never('there are no workspaces to choose from').optional()
        : z.enum(workspaces).optional(),
  });
}

/** What one run starts. */
export interface Launch {
  readonly name: string;
  readonly settings: ResolvedOptions['commands'][string];
  readonly cwd: string;
  /** For messages: `workspace "repo"`, never the path. */
  readonly place: string;
  readonly timeoutMs: number;
}

/** Looks up what a request named. Throws `VALIDATION_ERROR` for a name that is not there or is missing. */
export function chooseLaunch(options: ResolvedOptions, config: CommandConfig): Launch {
  const names = Object.keys(options.commands);
  const name = config.command ?? options.defaultCommand ?? (names.length === 1 ? names[0] : undefined);
  const settings = name !== undefined && Object.hasOwn(options.commands, name) ? options.commands[name] : undefined;
  if (name === undefined || settings === undefined) throw invalid(`name a "command" in "config": ${names.join(', ')}`);
  const common = { name, settings, timeoutMs: settings.timeoutMs ?? options.timeoutMs };
  const workspace = config.workspace ?? settings.workspace;
  if (workspace === undefined) {
    if (settings.cwd !== undefined) return { ...common, cwd: settings.cwd, place: `directory of command "${name}"` };
    throw invalid(`name a "workspace" in "config": ${Object.keys(options.workspaces).join(', ')}`);
  }
  const cwd = Object.hasOwn(options.workspaces, workspace) ? options.workspaces[workspace] : undefined;
  if (cwd === undefined) throw invalid(`there is no workspace ${JSON.stringify(workspace)}`);
  return { ...common, cwd, place: `workspace "${workspace}"` };
}

function invalid(message: string): HoldfastError {
  return new HoldfastError('VALIDATION_ERROR', message);
}
