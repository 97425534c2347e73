/**
 * A tool-using model loop in the worker's own process, on the Vercel AI SDK: one request for each answer, tools run here,
 * every finished step in the journal. It suspends for an approval, so a person may take a month.
 *
 * @example
 * aiProvider({
 *   models: {
 *     fast: { provider: 'openai-compatible', baseURL: 'https://models.example/v1', model: 'm-1', apiKeyEnv: 'MODEL_KEY' },
 *   },
 *   tools: {
 *     refund: aiTool({
 *       description: 'Pays an order back.',
 *       input: z.strictObject({ order: z.string(), cents: z.int() }),
 *       needsApproval: ({ cents }) => cents > 5000,
 *       execute: ({ order, cents }, { callId, signal }) => payBack(order, cents, callId, signal),
 *     }),
 *   },
 * });
 */
import { HoldfastError } from '../../protocol/errors.js';
import { PROTOCOL_VERSION, type ProviderManifest } from '../../protocol/manifest.js';
import { rulesOf } from '../policy/rules.js';
import { Redactor } from '../process/redact.js';
import type { Provider, RunContext, RunResult } from '../provider.js';
import { Loop } from './loop.js';
import { mcpSecrets } from './mcp.js';
import { makeModel, modelSecrets } from './models.js';
import {
  type AiConfig,
  type AiOptions,
  type CallRules,
  chooseModel,
  configSchema,
  type ResolvedOptions,
  resolveOptions,
} from './options.js';
import { type RunnableTool, runnableTool } from './tool.js';
import { Toolbox } from './toolbox.js';

export type { McpServer } from './mcp-options.js';
export type { AiModel } from './model-options.js';
export type { AiConfig, AiLimits, AiOptions } from './options.js';
export { type AiTool, aiTool, type ToolCallInfo } from './tool.js';

const AI_PROVIDER_VERSION = '1.0.0';

/**
 * A provider for the models and tools that `options` names. Throws `VALIDATION_ERROR` when they are wrong, or a variable
 * with a key is not set.
 *
 * An execution's `input` is a string, `{ text }` or `{ prompt: [{ type: 'text', text }, …] }`; its `config` picks from
 * what is configured (`AiConfig`). A failure of the model, and a limit that is reached, is a `PROVIDER_ERROR`.
 */
export function aiProvider(options: AiOptions): Provider<AiConfig> {
  const resolved = resolveOptions(options);
  const redactor = new Redactor([
    ...resolved.secrets,
    ...Object.entries(resolved.models).flatMap(([name, model]) => modelSecrets(name, model)),
    ...Object.entries(resolved.mcpServers).flatMap(([name, server]) => mcpSecrets(name, server)),
  ]);
  const tools = new Map(Object.entries(resolved.tools).map(([name, tool]) => [name, runnableTool(name, tool)]));
  const { policy, scopes, workspace } = resolved;
  const callRules: CallRules = { rules: rulesOf(policy), scopes, workspace };
  return {
    manifest: manifestOf(resolved),
    config: configSchema(resolved),
    recovery: 'journal',
    run: (ctx) => runAi(ctx, resolved, callRules, tools, redactor),
  };
}

/** Settles when no tool runs any more and no MCP server is left. */
async function runAi(
  ctx: RunContext<AiConfig>,
  options: ResolvedOptions,
  callRules: CallRules,
  registered: ReadonlyMap<string, RunnableTool>,
  redactor: Redactor,
): Promise<RunResult> {
  const { limits } = options;
  const { name, settings } = chooseModel(options, ctx.config);
  const clock = new AbortController();
  const signal = AbortSignal.any([ctx.signal, clock.signal]);
  let tools: Promise<Toolbox> | undefined;
  const loop = new Loop({
    ctx,
    modelName: name,
    model: await makeModel(name, settings).catch((error: unknown) => {
      throw asOurs(error, redactor);
    }),
    sampling: { maxOutputTokens: settings.maxOutputTokens, temperature: settings.temperature },
    instructions: [options.instructions, ctx.config.instructions].filter(Boolean).join('\n\n') || undefined,
    limits,
    callRules,
    redactor,
    signal,
    openTools: () => {
      tools = Toolbox.open(options, registered, ctx.config, redactor, signal);
      return tools;
    },
  });
  const left = Math.max(1, limits.runTimeoutMs - loop.recorder.state.ms);
  const timer = setTimeout(() => clock.abort(timeIsOver(limits.runTimeoutMs)), left);
  let result: RunResult = {};
  let failure: unknown;
  try {
    result = await loop.run();
  } catch (error) {
    failure = error;
  }
  clearTimeout(timer);
  const forced = (await tools?.then((open) => open.close()).catch(() => false)) ?? false;
  if (ctx.signal.aborted) {
    await Promise.all(loop.running);
    return { forced };
  }
  if (loop.running.length > 0)
    ctx.log('warn', 'tools run on although they were told to stop', { tools: loop.running.length });
  if (failure === undefined) return result;
  loop.stageUsage();
  await loop.recorder.commit();
  throw asOurs(failure, redactor);
}

function timeIsOver(ms: number): HoldfastError {
  return new HoldfastError(
    'PROVIDER_ERROR',
    `the execution was ended at its limit of ${ms} ms of working time (limits.runTimeoutMs)`,
  );
}

/** Without a cause: an error of somebody else's may hold anything. */
function asOurs(error: unknown, redactor: Redactor): HoldfastError {
  if (error instanceof HoldfastError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new HoldfastError('PROVIDER_ERROR', redactor.text(message));
}

function manifestOf(options: ResolvedOptions): ProviderManifest {
  const servers = Object.keys(options.mcpServers);
  return {
    id: options.id,
    name: options.name,
    version: AI_PROVIDER_VERSION,
    protocolVersion: PROTOCOL_VERSION,
    topologies: ['embedded'],
    capabilities: {
      'action.approval': 'native',
      'action.input': 'unsupported',
      'artifact.list': 'unsupported',
      'conversation.continuity': 'emulated',
      'event.replay': 'native',
      'event.streaming': 'native',
      'execution.cancel': 'native',
      'extension.mcp': servers.length > 0 ? 'native' : 'unsupported',
      'extension.sandbox': 'unsupported',
      'extension.skills': 'unsupported',
      'extension.subagents': 'unsupported',
    },
    metadata: { models: Object.keys(options.models), tools: Object.keys(options.tools), mcpServers: servers },
  };
}
