/**
 * Any agent that speaks the Agent Client Protocol (version 1) on its standard input and output, one process per
 * execution. The process, its group and everything it started are gone when `run` settles, however it ends.
 *
 * @example
 * acpProvider({
 *   agents: {
 *     opencode: { command: '/opt/opencode/bin/opencode', args: ['acp'], workspace: 'shop', passEnv: ['PATH', 'HOME'] },
 *   },
 *   workspaces: { shop: '/srv/shop' },
 * });
 */
import { stat } from 'node:fs/promises';
import { HoldfastError } from '../../protocol/errors.js';
import type { Usage } from '../../protocol/execution.js';
import { clip } from '../../protocol/json.js';
import { PROTOCOL_VERSION, type ProviderManifest } from '../../protocol/manifest.js';
import { Redactor } from '../process/redact.js';
import { cleanText } from '../process/stderr-tail.js';
import { settledWithin, unlessAborted } from '../process/wait.js';
import type { Provider, RunContext, RunResult } from '../provider.js';
import { AgentConnection } from './connection.js';
import { AgentFailure, asHoldfastError } from './failure.js';
import {
  type AcpConfig,
  type AcpOptions,
  chooseLaunch,
  configSchema,
  type Launch,
  type ResolvedOptions,
  resolveOptions,
} from './options.js';
import { Permissions } from './permission.js';
import { promptOf } from './prompt.js';
import { openSession } from './session.js';
import { promptTurn, TurnClock, turnEnd } from './turn.js';
import { SessionUpdates } from './updates.js';

export type { AcpConfig, AcpOptions } from './options.js';

const VERSION = '1.0.0';
/** Lines of noise that are shown in the log, each with its beginning. */
const NOISE_SAMPLES = 3;

/**
 * A provider for the agents that `options` names. Throws `VALIDATION_ERROR` when they are wrong.
 *
 * An execution's `input` is a string, `{ text }` or `{ prompt: [{ type: 'text', text }, …] }`; its `config` names an
 * agent, a workspace and a mode (`AcpConfig`). A failure of the agent is a `PROVIDER_ERROR` that says what happened
 * and ends with the last of its standard error.
 */
export function acpProvider(options: AcpOptions): Provider<AcpConfig> {
  const resolved = resolveOptions(options);
  return {
    manifest: manifestOf(resolved),
    config: configSchema(resolved),
    recovery: 'none',
    run: (ctx) => run(ctx, resolved),
  };
}

function manifestOf(options: ResolvedOptions): ProviderManifest {
  return {
    id: options.id,
    name: options.name,
    version: VERSION,
    protocolVersion: PROTOCOL_VERSION,
    topologies: ['subprocess'],
    capabilities: {
      'action.approval': 'native',
      'action.input': 'unsupported',
      'artifact.list': 'unsupported',
      'conversation.continuity': 'unsupported',
      'event.replay': 'native',
      'event.streaming': 'native',
      'execution.cancel': 'native',
      'extension.mcp': 'unsupported',
      'extension.sandbox': 'unsupported',
      'extension.skills': 'unsupported',
      'extension.subagents': 'unsupported',
    },
    metadata: { agents: Object.keys(options.agents), workspaces: Object.keys(options.workspaces) },
  };
}

async function run(ctx: RunContext<AcpConfig>, options: ResolvedOptions): Promise<RunResult> {
  const prompt = promptOf(ctx.input);
  const launch = chooseLaunch(options, ctx.config);
  await checkDirectory(launch);
  if (ctx.signal.aborted) return {};

  const { secretEnv = {}, secrets = [] } = launch.settings;
  const redactor = new Redactor([...Object.values(secretEnv), ...secrets]);
  const updates = new SessionUpdates(ctx, redactor);
  const clock = new TurnClock(options.turnTimeoutMs);
  let runtimeFailure: unknown;
  const broken = new AbortController();
  const permissions = new Permissions({
    ctx,
    redactor,
    sessionId: () => updates.sessionId,
    toolTitle: (id) => updates.title(id),
    onWaiting: (waiting) => clock.pause(waiting),
    onFailure: (error) => {
      runtimeFailure ??= error;
      broken.abort();
    },
  });
  const stopping = AbortSignal.any([ctx.signal, broken.signal]);
  const agent = new AgentConnection({
    launch,
    maxMessageBytes: options.maxMessageBytes,
    onUpdate: (params) => updates.accept(params),
    onPermission: (params, signal) => permissions.answer(params, signal),
    onNoise: noiseLog(ctx, redactor),
    onUnknown: (method) =>
      ctx.log('debug', 'the agent called a method that is not spoken here', { method: clip(method, 200) }),
  });

  let result: { usage: Usage } | undefined;
  let failure: unknown;
  try {
    const sessionId = await withinStart(
      openSession(agent, updates, {
        cwd: launch.cwd,
        mode: ctx.config.mode,
        clientVersion: VERSION,
      }),
      options.startTimeoutMs,
      stopping,
    );
    if (sessionId !== undefined) {
      await ctx.setSession({ sessionId, agent: launch.agent });
      const response = await promptTurn(agent, {
        sessionId,
        prompt,
        clock,
        signal: stopping,
        cancelGraceMs: options.cancelGraceMs,
        closePermissions: () => permissions.close(),
      });
      if (!stopping.aborted) {
        const end = turnEnd(response, permissions.rejectedLast);
        if (end.remark !== undefined)
          await updates.note('acp.stop', { stopReason: end.stopReason, message: end.remark });
        result = { usage: end.usage };
      }
    }
  } catch (error) {
    failure = error;
  }
  // What the agent says until its output ends still counts: the last words may come right after the answer.
  const report = await agent.stop();
  if (report.left.length > 0) ctx.log('error', 'processes of the agent could not be ended', { pids: report.left });
  if (agent.noise.lines > 0)
    ctx.log('warn', "lines on the agent's standard output were no messages", { ...agent.noise });
  try {
    await updates.finish();
  } catch (error) {
    failure ??= error;
  }
  if (ctx.signal.aborted) return { forced: report.forced };
  failure ??= runtimeFailure ?? agent.failure;
  if (failure !== undefined) throw asHoldfastError(failure, launch.agent, agent.stderr, redactor);
  const usage = { ...result?.usage, ...updates.usage };
  return Object.keys(usage).length === 0 ? {} : { usage };
}

/** What `opening` comes to; undefined when the run is stopped before. */
async function withinStart(opening: Promise<string>, ms: number, signal: AbortSignal): Promise<string | undefined> {
  const opened = unlessAborted(opening, signal);
  if (await settledWithin(opened, ms)) return opened;
  opened.catch(() => {});
  throw new AgentFailure(`did not open a session within ${ms} ms (startTimeoutMs)`);
}

/** A missing directory would look like a missing command. */
async function checkDirectory(launch: Launch): Promise<void> {
  const found = await stat(launch.cwd).catch(() => undefined);
  if (found?.isDirectory() !== true)
    throw new HoldfastError('PROVIDER_ERROR', `the ${launch.place} is not there, or is no directory`);
}

function noiseLog(ctx: Pick<RunContext, 'log'>, redactor: Redactor): (sample: string) => void {
  let shown = 0;
  return (sample) => {
    shown += 1;
    if (shown > NOISE_SAMPLES) return;
    const line = clip(redactor.text(cleanText(sample)), 200);
    ctx.log('warn', "a line on the agent's standard output is no message and was ignored", { line });
  };
}
