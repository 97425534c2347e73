/**
 * What a worker's configuration says about its agents, and what a request may pick from it. A request names things; it
 * never carries a command, a path or a variable (DESIGN §4).
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
const noNul = (text: string) => !text.includes('\0');
const text = z.string().refine(noNul, 'must not hold a NUL character');
const secret = text.min(MIN_SECRET_LENGTH, `is too short to be redacted (under ${MIN_SECRET_LENGTH} characters)`);
const absolutePath = text.refine(isAbsolute, 'must be an absolute path');
const name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'a name is 1–64 of A–Z a–z 0–9 . _ -');
const variable = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'is no name of an environment variable')
  .refine((key) => key !== MARKER_VARIABLE, `${MARKER_VARIABLE} is set by Holdfast`);

const agentSchema = z
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
    /** Its whole environment is `passEnv` (names, taken from ours), `env` and `secretEnv`: nothing else is passed on. */
    env: z.record(variable, text).optional(),
    passEnv: z.array(variable).optional(),
    /** Like `env`; the exact values are redacted from all that is emitted. */
    secretEnv: z.record(variable, secret).optional(),
    /** More values to redact: those that stand inside other variables, say. */
    secrets: z.array(secret).optional(),
  })
  .refine((agent) => agent.cwd === undefined || agent.workspace === undefined, 'has both "cwd" and "workspace"');

const optionsSchema = z
  .strictObject({
    id: idSchema.default('acp'),
    name: z.string().min(1).max(200).default('Agent Client Protocol'),
    agents: z.record(name, agentSchema).refine((agents) => Object.keys(agents).length > 0, 'names no agent'),
    /** Which agent a request gets that names none. Needed only when there are several. */
    defaultAgent: name.optional(),
    /** Directories that requests may name. */
    workspaces: z.record(name, absolutePath).default({}),
    /** From the start of the process until its session is open. */
    startTimeoutMs: milliseconds.default(60_000),
    /** Of one turn, without the time in which a person is asked. Agents retry model errors in silence. */
    turnTimeoutMs: milliseconds.default(30 * 60_000),
    /** For the agent to end its turn after `session/cancel`. */
    cancelGraceMs: milliseconds.default(5000),
    /** Of one message from the agent. A longer line ends the run. */
    maxMessageBytes: z
      .int()
      .min(1024)
      .max(256 * MIB)
      .default(32 * MIB),
  })
  .superRefine((options, ctx) => {
    const { agents, defaultAgent, workspaces } = options;
    if (defaultAgent !== undefined && !Object.hasOwn(agents, defaultAgent))
      ctx.addIssue({ code: 'custom', path: ['defaultAgent'], message: `"${defaultAgent}" is not in "agents"` });
    for (const [key, agent] of Object.entries(agents)) {
      if (agent.workspace !== undefined && !Object.hasOwn(workspaces, agent.workspace))
        ctx.addIssue({
          code: 'custom',
          path: ['agents', key, 'workspace'],
          message: `"${agent.workspace}" is not in "workspaces"`,
        });
      if (agent.cwd === undefined && agent.workspace === undefined && Object.keys(workspaces).length === 0)
        ctx.addIssue({
          code: 'custom',
          path: ['agents', key],
          message: 'needs "cwd", "workspace", or "workspaces" for requests to choose from',
        });
    }
  });

/** What `acpProvider` takes. */
export type AcpOptions = z.input<typeof optionsSchema>;
export type ResolvedOptions = z.output<typeof optionsSchema>;

/** A request's `config`. */
export interface AcpConfig {
  /** One of the configured agents. */
  agent?: string | undefined;
  /** One of the configured workspaces. */
  workspace?: string | undefined;
  /** One of the modes that the agent offers, e.g. `plan`. */
  mode?: string | undefined;
}

/** Checks the worker's configuration. Throws `VALIDATION_ERROR` that names each wrong place. */
export function resolveOptions(options: AcpOptions): ResolvedOptions {
  const parsed = optionsSchema.safeParse(options);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'options'}: ${issue.message}`);
  throw new HoldfastError('VALIDATION_ERROR', `acpProvider: ${problems.join('; ')}`);
}

/** The schema of `config`. It lists the names there are, so callers learn them from the manifest. */
export function configSchema(options: ResolvedOptions): z.ZodType<AcpConfig> {
  const agents = Object.keys(options.agents);
  const workspaces = Object.keys(options.workspaces);
  const needsAgent = options.defaultAgent === undefined && agents.length > 1;
  return z.strictObject({
    agent: needsAgent ? z.enum(agents) : z.enum(agents).optional(),
    workspace:
      workspaces.length === 0
        ? z.never('there are no workspaces to choose from').optional()
        : z.enum(workspaces).optional(),
    mode: z.string().min(1).max(200).optional(),
  });
}

/** What one run starts. */
export interface Launch {
  readonly agent: string;
  readonly settings: ResolvedOptions['agents'][string];
  readonly cwd: string;
  /** For messages: `workspace "repo"`, never the path. */
  readonly place: string;
}

/** Looks up what a request named. Throws `VALIDATION_ERROR` for a name that is not there or is missing. */
export function chooseLaunch(options: ResolvedOptions, config: AcpConfig): Launch {
  const names = Object.keys(options.agents);
  const agent = config.agent ?? options.defaultAgent ?? (names.length === 1 ? names[0] : undefined);
  if (agent === undefined) throw invalid(`name an "agent" in "config": ${names.join(', ')}`);
  const settings = Object.hasOwn(options.agents, agent) ? options.agents[agent] : undefined;
  if (settings === undefined) throw invalid(`there is no agent ${JSON.stringify(agent)}; there is ${names.join(', ')}`);
  const workspace = config.workspace ?? settings.workspace;
  if (workspace === undefined) {
    if (settings.cwd !== undefined)
      return { agent, settings, cwd: settings.cwd, place: `directory of agent "${agent}"` };
    throw invalid(`name a "workspace" in "config": ${Object.keys(options.workspaces).join(', ')}`);
  }
  const cwd = Object.hasOwn(options.workspaces, workspace) ? options.workspaces[workspace] : undefined;
  if (cwd === undefined) throw invalid(`there is no workspace ${JSON.stringify(workspace)}`);
  return { agent, settings, cwd, place: `workspace "${workspace}"` };
}

function invalid(message: string): HoldfastError {
  return new HoldfastError('VALIDATION_ERROR', message);
}
