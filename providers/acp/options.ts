/**
 * What a worker's configuration says about its agents, and what a request may pick from it. A request names things; it
 * never carries a command, a path or a variable (DESIGN §4).
 */
import { z } from 'zod';
import { milliseconds } from '../../protocol/duration.js';
import { idSchema } from '../../protocol/ids.js';
import { scopeSchema } from '../policy/remembered.js';
import { policySchema } from '../policy/rules.js';
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
import { checkRoot, isKept, rootSchema, workspacesSchema } from '../workspace/options.js';
import { uriTemplate } from '../workspace/uri.js';
import { mcpServerSchema } from './mcp.js';

const agentSchema = z
  .strictObject({
    ...harnessFields,
    /** MCP servers of a request that names none, from `mcpServers`. */
    mcpServers: z.array(name).optional(),
  })
  .refine(onePlace, ONE_PLACE);

const artifactsSchema = z.strictObject({
  /** Each file that a tool of the agent wrote, as it is at the end of the turn. */
  files: z.boolean().default(false),
  /** Each diff that the agent reported. */
  diffs: z.boolean().default(false),
  /** Where they are to be fetched; by default the file on its host. */
  uri: uriTemplate.optional(),
});

const optionsSchema = z
  .strictObject({
    id: idSchema.default('acp'),
    name: z.string().min(1).max(200).default('Agent Client Protocol'),
    agents: z.record(name, agentSchema).refine((agents) => Object.keys(agents).length > 0, 'names no agent'),
    /** Which agent a request gets that names none. Needed only when there are several. */
    defaultAgent: name.optional(),
    /**
     * `native`: executions of one conversation take turns and go on with the agent's own session, which every agent
     * here has to be able to load; a lost one fails the turn. `degraded`: the same, but where a session cannot be gone
     * on with, a fresh one is opened, on record. `none`: each execution has a session of its own, side by side.
     */
    continuity: z.enum(['native', 'degraded', 'none']).default('native'),
    /** MCP servers that agents get with their session, by name. */
    mcpServers: z.record(name, mcpServerSchema).default({}),
    /** Of one file that a prompt carries. */
    maxAttachmentBytes: z
      .int()
      .min(1)
      .max(64 * MIB)
      .default(10 * MIB),
    /** What becomes an artifact's descriptor. */
    artifacts: artifactsSchema.prefault({}),
    /** Rules that answer permission requests before a person is asked. Deny wins; what no rule allows is asked. */
    policy: policySchema.default([]),
    /** For how long a person's answer may stand beyond once, if its `metadata.scope` says so. */
    scopes: z.array(scopeSchema).default(['execution', 'conversation']),
    /** What requests may name to work in. */
    workspaces: workspacesSchema.default({}),
    /** Where workspaces of the kinds `scratch` and `git` are kept. */
    workspaceRoot: rootSchema.optional(),
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
  .superRefine(({ agents, defaultAgent, workspaces, workspaceRoot, policy, mcpServers, continuity }, ctx) => {
    checkPlaces(ctx, { list: 'agents', fallback: 'defaultAgent' }, agents, defaultAgent, workspaces);
    checkRoot(ctx, workspaces, workspaceRoot);
    // Executions side by side would change the same files.
    for (const [key, workspace] of Object.entries(workspaces))
      if (continuity === 'none' && isKept(workspace)) {
        const message = `kind "${workspace.kind}" goes with continuity "native" or "degraded"`;
        ctx.addIssue({ code: 'custom', path: ['workspaces', key], message });
      }
    for (const [key, agent] of Object.entries(agents))
      for (const [index, server] of (agent.mcpServers ?? []).entries())
        if (!Object.hasOwn(mcpServers, server)) {
          const path = ['agents', key, 'mcpServers', index];
          ctx.addIssue({ code: 'custom', path, message: `"${server}" is not in "mcpServers"` });
        }
    for (const [index, { agent }] of policy.entries())
      if (agent !== undefined && !Object.hasOwn(agents, agent))
        ctx.addIssue({ code: 'custom', path: ['policy', index, 'agent'], message: `"${agent}" is not in "agents"` });
  });

/** What `acpProvider` takes. */
export type AcpOptions = z.input<typeof optionsSchema>;
export type ResolvedOptions = z.output<typeof optionsSchema>;
export type Continuity = ResolvedOptions['continuity'];

/** A request's `config`. */
export interface AcpConfig {
  /** One of the configured agents. */
  agent?: string | undefined;
  /** One of the configured workspaces. */
  workspace?: string | undefined;
  /** One of the modes that the agent offers, e.g. `plan`. */
  mode?: string | undefined;
  /** Configured MCP servers; without it those of the agent's configuration. */
  mcpServers?: string[] | undefined;
}

/** Checks the worker's configuration. Throws `VALIDATION_ERROR` that names each wrong place. */
export function resolveOptions(options: AcpOptions): ResolvedOptions {
  return checkedOptions('acpProvider', optionsSchema, options);
}

/** The schema of `config`. It lists the names there are, so callers learn them from the manifest. */
export function configSchema(options: ResolvedOptions): z.ZodType<AcpConfig> {
  const agents = Object.keys(options.agents);
  const workspaces = Object.keys(options.workspaces);
  const servers = Object.keys(options.mcpServers);
  const needsAgent = options.defaultAgent === undefined && agents.length > 1;
  return z.strictObject({
    agent: needsAgent ? z.enum(agents) : z.enum(agents).optional(),
    workspace: pickOf(workspaces, 'workspaces'),
    mode: z.string().min(1).max(200).optional(),
    mcpServers:
      servers.length === 0
        ? z.never('there are no MCP servers to choose from').optional()
        : z.array(z.enum(servers)).max(100).optional(),
  });
}

/** What a request has chosen. */
export interface Choice extends ChosenPlace {
  readonly agent: string;
  readonly settings: ResolvedOptions['agents'][string];
}

/** What one run starts, and where. */
export interface Launch extends Pick<Choice, 'agent' | 'settings' | 'place' | 'label'> {
  readonly cwd: string;
}

/** Looks up what a request named. Throws `VALIDATION_ERROR` for a name that is not there or is missing. */
export function choose(options: ResolvedOptions, config: AcpConfig): Choice {
  const { name: agent, settings } = chosen('agent', options.agents, config.agent, options.defaultAgent);
  return { agent, settings, ...chosenPlace('agent', agent, settings, config.workspace, options.workspaces) };
}
