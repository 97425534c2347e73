/**
 * What a worker's configuration says about its models, tools and limits, and what a request may pick from it. A request
 * names things; it never carries an address, a command or a header (DESIGN §4).
 */
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { milliseconds } from '../../protocol/duration.js';
import { HoldfastError } from '../../protocol/errors.js';
import { idSchema } from '../../protocol/ids.js';
import { KIB } from '../../protocol/limits.js';
import { isNamed } from '../policy/decide.js';
import { type Scope, scopeSchema } from '../policy/remembered.js';
import { type ModelPolicyRule, modelPolicySchema, type Rule } from '../policy/rules.js';
import { absolutePath } from '../process/options.js';
import { type McpServer, mcpServersSchema } from './mcp-options.js';
import { type AiModel, modelsSchema } from './model-options.js';
import type { AiTool } from './tool.js';

/** What every model API takes as a tool's name. */
const toolName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/, 'a tool name is 1–64 of A–Z a–z 0–9 _ -');

const limitsSchema = z
  .strictObject({
    /** Model answers of one execution. */
    maxSteps: z.int().min(1).max(10_000).default(50),
    /** Input and output tokens of one execution together, as far as the model reports them. */
    maxTokens: z.int().min(1).default(2_000_000),
    /** Working time of one execution: model and tools, without the time in which a person is asked. */
    runTimeoutMs: milliseconds.default(30 * 60_000),
    /** Silence of a model in the middle of an answer, or before it. */
    idleTimeoutMs: milliseconds.default(120_000),
    /** Requests for one answer, beside the first. */
    maxRetries: z.int().min(0).max(10).default(2),
    /** The longest wait between two of them; a model that asks for a longer one fails the execution. */
    maxRetryWaitMs: milliseconds.default(30_000),
    /** One call of a tool that sets none itself. */
    toolTimeoutMs: milliseconds.default(5 * 60_000),
    /** What of a tool's result the model gets to see, in UTF-16 units. */
    maxToolResultLength: z.int().min(100).max(1_000_000).default(40_000),
  })
  .prefault({});

const optionsSchema = z.strictObject({
  id: idSchema.default('ai'),
  name: z.string().min(1).max(200).default('AI tool loop'),
  models: modelsSchema,
  /** Which model a request gets that names none. Needed only when there are several. */
  defaultModel: z.string().optional(),
  tools: z.record(toolName, z.custom<AiTool>(isTool, 'must be a tool (see aiTool)')).default({}),
  mcpServers: mcpServersSchema.default({}),
  /** The system prompt. */
  instructions: z.string().optional(),
  /** More values to redact from all that is emitted, journaled or shown to a model. */
  secrets: z.array(z.string().min(4, 'is too short to be redacted (under 4 characters)')).default([]),
  limits: limitsSchema,
  /** Rules over calls of tools, before a person is asked. Deny wins, also over what needs no approval. */
  policy: modelPolicySchema.default([]),
  /** For how long a person's answer may stand beyond once, if its `metadata.scope` says so. */
  scopes: z.array(scopeSchema).default(['execution', 'conversation']),
  /** The folder in which tools work: where relative paths begin, in rules and in what the model sends. */
  workspace: absolutePath.optional(),
});

/** What `aiProvider` takes. */
export interface AiOptions {
  /** The manifest's id; `ai` by default. */
  readonly id?: string;
  readonly name?: string;
  readonly models: Readonly<Record<string, AiModel>>;
  readonly defaultModel?: string;
  readonly tools?: Readonly<Record<string, AiTool>>;
  readonly mcpServers?: Readonly<Record<string, McpServer>>;
  readonly instructions?: string;
  readonly secrets?: readonly string[];
  /** See `docs/providers/ai.md` for each and its default. */
  readonly limits?: Partial<AiLimits>;
  /** See `docs/providers/policy.md`. */
  readonly policy?: readonly ModelPolicyRule[];
  readonly scopes?: readonly Scope[];
  /** Absolute: where relative paths begin, in rules and in what a model sends. */
  readonly workspace?: string;
}
export type AiLimits = z.output<typeof limitsSchema>;
export type ResolvedOptions = z.output<typeof optionsSchema>;

/** What rules over calls there are, in the form in which they are matched. */
export interface CallRules {
  readonly rules: readonly Rule[];
  readonly scopes: readonly Scope[];
  readonly workspace: string | undefined;
}

/** A request's `config`. */
export interface AiConfig {
  /** One of the configured models. */
  model?: string | undefined;
  /** Of the registered tools only these. */
  tools?: string[] | undefined;
  /** Of the configured MCP servers only these. */
  mcpServers?: string[] | undefined;
  /** Added to the worker's own system prompt. */
  instructions?: string | undefined;
  /** Lower than the worker's own. */
  maxSteps?: number | undefined;
  maxTokens?: number | undefined;
}

/** Checks the worker's configuration. Throws `VALIDATION_ERROR` that names each wrong place. */
export function resolveOptions(options: AiOptions): ResolvedOptions {
  const parsed = optionsSchema.safeParse(options);
  if (!parsed.success) {
    const problems = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'options'}: ${said(issue)}`);
    throw new HoldfastError('VALIDATION_ERROR', `aiProvider: ${problems.join('; ')}`);
  }
  const { defaultModel, models } = parsed.data;
  if (defaultModel !== undefined && !Object.hasOwn(models, defaultModel))
    throw new HoldfastError('VALIDATION_ERROR', `aiProvider: defaultModel: "${defaultModel}" is not in "models"`);
  const wrong = parsed.data.policy.flatMap((rule, index) => {
    const problem = ruleProblem(rule, parsed.data);
    return problem === undefined ? [] : [`policy.${index}.${problem}`];
  });
  if (wrong.length > 0) throw new HoldfastError('VALIDATION_ERROR', `aiProvider: ${wrong.join('; ')}`);
  return parsed.data;
}

/** A rule about what is not there would never match, and nobody would notice. */
function ruleProblem({ model, tool, path }: ModelPolicyRule, options: ResolvedOptions): string | undefined {
  const { models, tools, mcpServers, workspace } = options;
  if (model !== undefined && !Object.hasOwn(models, model)) return `model: "${model}" is not in "models"`;
  if (path !== undefined && workspace === undefined && !isAbsolute(path))
    return `path: "${path}" is relative, and there is no "workspace" that it could begin in`;
  if (tool === undefined) return undefined;
  const begins = tool.endsWith('*') ? tool.slice(0, -1) : undefined;
  const isKnown =
    Object.keys(tools).some((name) => (begins === undefined ? name === tool : name.startsWith(begins))) ||
    // Which tools a server has is known only once it runs.
    Object.keys(mcpServers).some(
      (name) => tool.startsWith(`${name}_`) || (begins !== undefined && `${name}_`.startsWith(begins)),
    );
  return isKnown ? undefined : `tool: there is no tool "${tool}", and no MCP server that could have it`;
}

/**
 * What is wrong with a rule about tools of MCP servers, once they told their tools: `servers` by their names. The first
 * such rule, or undefined. One about a server which this run does not use is left alone.
 */
export function deadRule(
  { policy, tools }: Pick<ResolvedOptions, 'policy' | 'tools'>,
  servers: ReadonlyMap<string, readonly string[]>,
): string | undefined {
  const known = [...Object.keys(tools), ...[...servers.values()].flat()];
  for (const [index, { name, tool }] of policy.entries()) {
    if (tool === undefined || known.some((each) => isNamed(tool, each))) continue;
    const owner = [...servers.keys()].find((server) => tool.startsWith(`${server}_`));
    if (owner === undefined) continue;
    return `the rule "${name ?? `policy.${index}`}" is about "${tool}", and MCP server "${owner}" has no such tool; it has: ${servers.get(owner)?.join(', ') || 'none'}`;
  }
  return undefined;
}

/** What is wrong with a key stands one level deeper. */
function said(issue: z.core.$ZodIssue): string {
  return issue.code === 'invalid_key' ? (issue.issues[0]?.message ?? issue.message) : issue.message;
}

/** The schema of `config`. It lists the names there are, so callers learn them from the manifest. */
export function configSchema(options: ResolvedOptions): z.ZodType<AiConfig> {
  const models = Object.keys(options.models);
  const needsModel = options.defaultModel === undefined && models.length > 1;
  return z.strictObject({
    model: needsModel ? z.enum(models) : z.enum(models).optional(),
    tools: subsetOf(Object.keys(options.tools), 'tools'),
    mcpServers: subsetOf(Object.keys(options.mcpServers), 'MCP servers'),
    instructions: z
      .string()
      .max(32 * KIB)
      .optional(),
    maxSteps: z.int().min(1).max(options.limits.maxSteps).optional(),
    maxTokens: z.int().min(1).max(options.limits.maxTokens).optional(),
  });
}

function subsetOf(names: string[], what: string): z.ZodType<string[] | undefined> {
  return names.length === 0
    ? z.array(z.never(`there are no ${what} to choose from`)).optional()
    : z.array(z.enum(names)).optional();
}

/** The model that a request gets. Throws `VALIDATION_ERROR` when it has to name one. */
export function chooseModel(options: ResolvedOptions, config: AiConfig): { name: string; settings: AiModel } {
  const names = Object.keys(options.models);
  const name = config.model ?? options.defaultModel ?? (names.length === 1 ? names[0] : undefined);
  const settings = name !== undefined && Object.hasOwn(options.models, name) ? options.models[name] : undefined;
  if (name === undefined || settings === undefined)
    throw new HoldfastError('VALIDATION_ERROR', `name a "model" in "config": ${names.join(', ')}`);
  return { name, settings };
}

function isTool(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { description, input, needsApproval, execute } = value as Partial<Record<keyof AiTool, unknown>>;
  return (
    typeof description === 'string' &&
    input instanceof z.ZodType &&
    (typeof needsApproval === 'boolean' || typeof needsApproval === 'function') &&
    typeof execute === 'function'
  );
}
