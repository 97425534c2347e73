/** One run: start the agent, open a session, one turn, and the end of everything that was started. */
import { stat } from 'node:fs/promises';
import type { ContentBlock } from '@agentclientprotocol/sdk';
import { HoldfastError } from '../../protocol/errors.js';
import type { Usage } from '../../protocol/execution.js';
import { clip } from '../../protocol/json.js';
import { rulesOf } from '../policy/rules.js';
import { TurnClock } from '../process/clock.js';
import { secretValues } from '../process/environment.js';
import { Redactor } from '../process/redact.js';
import { cleanText } from '../process/stderr-tail.js';
import { settledWithin, unlessAborted } from '../process/wait.js';
import type { RunContext, RunResult } from '../provider.js';
import { type OpenWorkspace, openFolder, type Workspaces } from '../workspace/workspaces.js';
import { AgentConnection } from './connection.js';
import { AgentFailure, asHoldfastError } from './failure.js';
import { Judge } from './judge.js';
import { chooseServers } from './mcp.js';
import { ConversationMemory } from './memory.js';
import { type AcpConfig, type Choice, choose, type Launch, type ResolvedOptions } from './options.js';
import { Permissions } from './permission.js';
import { neededFor, promptOf, readPrompt } from './prompt.js';
import { openSession, type SessionOptions } from './session.js';
import { promptTurn, turnEnd, usageOf } from './turn.js';
import { SessionUpdates } from './updates.js';
import { Written } from './written.js';

export const ACP_PROVIDER_VERSION = '1.0.0';
/** Lines of noise that are shown in the log, each with its beginning. */
const NOISE_SAMPLES = 3;

/** See `acpProvider`. Settles when nothing of the agent is left. */
export async function runAgent(
  ctx: RunContext<AcpConfig>,
  options: ResolvedOptions,
  workspaces: Workspaces,
): Promise<RunResult> {
  const blocks = promptOf(ctx.input);
  const choice = choose(options, ctx.config);
  const memory = new ConversationMemory(options.continuity === 'none' ? undefined : ctx.conversation.session);
  checkPlace(memory, choice);
  const space = await openPlace(ctx, options, workspaces, choice, memory);
  const { agent, settings, place, label } = choice;
  const launch: Launch = { agent, settings, place, label, cwd: space.cwd };
  await checkDirectory(launch);
  const prompt = await readPrompt(blocks, launch.cwd, options.maxAttachmentBytes);
  const servers = chooseServers(options.mcpServers, ctx.config.mcpServers ?? launch.settings.mcpServers ?? []);
  if (ctx.signal.aborted) return {};

  const redactor = new Redactor([
    ...secretValues(launch.settings),
    ...(launch.settings.secrets ?? []),
    ...servers.secrets,
  ]);
  const run = connect(ctx, options, launch, memory, redactor);
  space.watch((error) => run.broken.abort(error));
  let usage: Usage = {};
  let failure: unknown;
  try {
    usage = await converse(ctx, options, run, { prompt, needs: neededFor(blocks), mcpServers: servers.wire });
  } catch (error) {
    failure = error;
  }
  // What the agent says until its output ends still counts: the last words may come right after the answer.
  const report = await run.agent.stop();
  try {
    await run.updates.finish();
    if (!ctx.signal.aborted) await run.written.publish(ctx, redactor);
  } catch (error) {
    failure ??= error;
  }
  // What broke the run is the reason, whatever else it led to.
  if (run.broken.signal.aborted) failure = run.broken.signal.reason;
  await space.finish().catch((error: unknown) => {
    failure ??= error;
  });
  const { noise, stderr } = run.agent;
  if (noise.lines > 0) ctx.log('warn', "lines on the agent's standard output were no messages", { ...noise });
  if (report.left.length > 0) ctx.log('error', 'processes of the agent could not be ended', { pids: report.left });

  if (ctx.signal.aborted) return { forced: report.forced };
  failure ??= run.agent.failure;
  if (failure !== undefined) throw asHoldfastError(failure, launch.agent, stderr, redactor);
  const all = { ...usage, ...run.updates.usage };
  return Object.keys(all).length === 0 ? {} : { usage: all };
}

/** What one run holds while it lasts. */
interface Run {
  readonly launch: Launch;
  readonly agent: AgentConnection;
  readonly updates: SessionUpdates;
  readonly written: Written;
  readonly permissions: Permissions;
  readonly clock: TurnClock;
  readonly memory: ConversationMemory;
  /** Aborts, with the error, when the runtime itself cannot go on. */
  readonly broken: AbortController;
}

function connect(
  ctx: RunContext<AcpConfig>,
  options: ResolvedOptions,
  launch: Launch,
  memory: ConversationMemory,
  redactor: Redactor,
): Run {
  const written = new Written({ ...options.artifacts, folder: launch.cwd, workspace: launch.label });
  const updates = new SessionUpdates(ctx, redactor, (update) => written.observe(update));
  const clock = new TurnClock(options.turnTimeoutMs);
  const broken = new AbortController();
  const judge = new Judge({
    agent: launch.agent,
    workspace: launch.cwd,
    rules: rulesOf(options.policy),
    // Without turns there is no conversation to remember an answer for.
    scopes: options.scopes.filter((scope) => scope === 'execution' || options.continuity !== 'none'),
    conversation: {
      answerOf: (question) => memory.answers.of(question),
      remember: async (question, approved) => {
        memory.answers.remember(question, approved);
        await handOn(ctx, options, memory);
      },
    },
    toolKind: (id) => updates.kind(id),
    note: (name, data) => updates.note(name, data),
  });
  const permissions = new Permissions({
    ctx,
    redactor,
    judge,
    sessionId: () => updates.sessionId,
    toolTitle: (id) => updates.title(id),
    onWaiting: (waiting) => clock.pause(waiting),
    onFailure: (error) => broken.abort(error),
  });
  const agent = new AgentConnection({
    launch,
    maxMessageBytes: options.maxMessageBytes,
    onUpdate: (params) => updates.accept(params),
    onPermission: (params, signal) => permissions.answer(params, signal),
    onNoise: noiseLog(ctx, redactor),
    onUnknown: (method) => {
      ctx.log('debug', 'the agent called a method that is not spoken here', { method: clip(method, 200) });
    },
  });
  return { launch, agent, updates, written, permissions, clock, memory, broken };
}

/** What a run asks of the agent. */
interface Asked extends Pick<SessionOptions, 'needs' | 'mcpServers'> {
  readonly prompt: ContentBlock[];
}

/** Session and turn. Resolves early, with nothing, when the run is to stop. Rejects with what went wrong. */
async function converse(
  ctx: RunContext<AcpConfig>,
  options: ResolvedOptions,
  { launch, agent, updates, permissions, clock, memory, broken }: Run,
  { prompt, needs, mcpServers }: Asked,
): Promise<Usage> {
  const stopping = AbortSignal.any([ctx.signal, broken.signal]);
  const { continuity } = options;
  const previous = memory.session(launch.agent);
  const opening = openSession(agent, updates, {
    cwd: launch.cwd,
    mode: ctx.config.mode,
    mcpServers,
    needs,
    continuity,
    previous: previous?.id,
    clientVersion: ACP_PROVIDER_VERSION,
  });
  const session = await withinStart(opening, options.startTimeoutMs, stopping);
  if (session === undefined) return {};
  if (session.continued) updates.spent(previous?.costUsd ?? 0);
  const keep = async (): Promise<void> => {
    const { costUsd = session.continued ? previous?.costUsd : undefined } = updates;
    const cost = costUsd === undefined ? {} : { costUsd };
    memory.remember(launch.agent, { id: session.id, place: launch.place, ...cost });
    await handOn(ctx, options, memory);
  };
  await keep();
  if (stopping.aborted) return {};
  const response = await promptTurn(agent, {
    sessionId: session.id,
    prompt,
    clock,
    signal: stopping,
    cancelGraceMs: options.cancelGraceMs,
    closePermissions: () => permissions.close(),
  });
  if (stopping.aborted) return {};
  await unlessAborted(ctx.reportUsage(usageOf(response)), ctx.signal);
  if (updates.costUsd !== undefined) await keep();
  const { stopReason, usage, remark } = turnEnd(response, permissions.rejectedLast);
  if (remark !== undefined) await updates.note('acp.stop', { stopReason, message: remark });
  return usage;
}

/** Hands on what the next turn needs. Without turns there is nobody to hand it to. */
async function handOn(
  ctx: RunContext<AcpConfig>,
  { continuity }: ResolvedOptions,
  memory: ConversationMemory,
): Promise<void> {
  if (continuity !== 'none') await unlessAborted(ctx.setSession(memory.toJson()), ctx.signal);
}

/** What `opening` comes to; undefined when the run is stopped before. */
async function withinStart<T>(opening: Promise<T>, ms: number, signal: AbortSignal): Promise<T | undefined> {
  const opened = unlessAborted(opening, signal);
  if (await settledWithin(opened, ms)) return opened;
  opened.catch(() => {});
  throw new AgentFailure(`did not open a session within ${ms} ms (startTimeoutMs)`);
}

/** An agent's session knows the files it began with. */
function checkPlace(memory: ConversationMemory, { agent, place }: Choice): void {
  const before = memory.session(agent)?.place;
  if (before !== undefined && before !== place)
    throw new HoldfastError(
      'VALIDATION_ERROR',
      `agent "${agent}" works in the ${before} in this conversation; name that one, or start another conversation`,
    );
}

async function openPlace(
  ctx: RunContext<AcpConfig>,
  options: ResolvedOptions,
  workspaces: Workspaces,
  { cwd, workspace }: Choice,
  memory: ConversationMemory,
): Promise<OpenWorkspace> {
  if (workspace === undefined) return openFolder(cwd ?? '');
  const space = await workspaces.open(workspace, ctx, memory.rootOf(workspace));
  if (space.rootId !== undefined) {
    memory.keepRoot(workspace, space.rootId);
    await handOn(ctx, options, memory);
  }
  return space;
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
