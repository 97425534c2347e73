/** From a request to a running execution at the other end: found by its key if it is there already, else started. */
import { HoldfastError } from '../../protocol/errors.js';
import type { Json, JsonObject } from '../../protocol/json.js';
import { type CapabilityLevel, capabilityLevel } from '../../protocol/manifest.js';
import { HandedOver, type RunContext } from '../provider.js';
import { type Remote, RemoteProblem } from './http.js';
import type { Journal } from './journal.js';
import { conversationReply, executionReply, read, runtimeReply } from './wire.js';

const CONTINUITY = 'conversation.continuity';
const RANK: Readonly<Record<CapabilityLevel, number>> = { unsupported: 0, degraded: 1, emulated: 2, native: 3 };

/** What the provider at the other end can do. Throws `PROVIDER_NOT_FOUND` when there is none of that id. */
export async function remoteCapabilities(
  remote: Remote,
  signal?: AbortSignal,
): Promise<Readonly<Record<string, CapabilityLevel>>> {
  const { providers } = read(runtimeReply, await remote.call('GET', '/v1/runtime', { signal }), 'GET /v1/runtime');
  const { provider } = remote.options;
  const found = providers.find((each) => each.id === provider);
  if (found !== undefined) return found.capabilities;
  const there = providers.map((each) => each.id).join(', ') || 'none';
  throw new HoldfastError('PROVIDER_NOT_FOUND', `the remote runtime has no provider ${provider}; it has: ${there}`);
}

/** Holds what we promise against what is there. Throws `CAPABILITY_UNSUPPORTED` that names each difference. */
async function checkCapabilities(remote: Remote, signal: AbortSignal): Promise<void> {
  const capabilities = await remoteCapabilities(remote, signal);
  const short = Object.entries(remote.options.capabilities).flatMap(([name, promised]) => {
    const level = capabilityLevel({ capabilities }, name);
    return RANK[level] < RANK[promised] ? [`${name} is ${level}, not ${promised}`] : [];
  });
  if (short.length === 0) return;
  const message = `provider ${remote.options.provider} of the remote runtime cannot do what is promised here: `;
  throw new HoldfastError('CAPABILITY_UNSUPPORTED', message + short.join('; '), { details: { short } });
}

/**
 * The id of the execution at the other end. Once its start was asked for it is not given up half-way, unless the next
 * attempt finds it by its key: whoever has to stop it has to know which one it is.
 */
export async function startRemote(ctx: RunContext<JsonObject>, remote: Remote, journal: Journal): Promise<string> {
  if (journal.executionId !== undefined) return journal.executionId;
  if (journal.start === undefined) {
    await checkCapabilities(remote, ctx.signal);
    await recordStart(journal, remote, await conversationOf(ctx, remote));
  }
  ctx.signal.throwIfAborted();
  let id = await started(ctx, remote, journal);
  if (id === undefined) {
    await recordStart(journal, remote, await newConversation(ctx, remote));
    id = await started(ctx, remote, journal);
  }
  if (id === undefined) throw new RemoteProblem('a new conversation does not take an execution', false);
  const conversationId = journal.start?.conversationId ?? null;
  // In one batch with the record; told to stop meanwhile, neither is of use.
  ctx.emit('provider.event', { name: 'remote.started', executionId: id, conversationId }).catch(() => undefined);
  await journal.record({ executionId: id }).catch((error) => {
    // Told to stop meanwhile: it is still known here, and is stopped.
    if (!ctx.signal.aborted) throw error;
  });
  return id;
}

/** Before the start is asked for: an attempt that is lost right after finds the same execution by the same key. */
async function recordStart(journal: Journal, { options }: Remote, conversationId: string): Promise<void> {
  const requires = Object.entries(options.capabilities).flatMap(([name, level]) =>
    level === 'unsupported' ? [] : [name],
  );
  await journal.record({ start: { conversationId, requires } });
}

/** Undefined when the conversation of the turns before is lost, and what is promised allows for a new one. */
async function started(ctx: RunContext<JsonObject>, remote: Remote, journal: Journal): Promise<string | undefined> {
  const { start } = journal;
  if (start === undefined) throw new Error('it was just recorded');
  const body = {
    conversationId: start.conversationId,
    providerId: remote.options.provider,
    input: ctx.input,
    config: ctx.config,
    requiredCapabilities: start.requires,
    metadata: { startedBy: { executionId: ctx.execution.id, conversationId: ctx.conversation.id } },
    ...(remote.options.timeoutSeconds === undefined ? {} : { timeoutSeconds: remote.options.timeoutSeconds }),
  };
  try {
    const reply = await remote.call('POST', '/v1/executions', {
      body,
      idempotencyKey: `holdfast-${ctx.execution.id}`,
      signal: handedOver(ctx.signal),
    });
    return read(executionReply, reply, 'POST /v1/executions').id;
  } catch (error) {
    if (!(error instanceof RemoteProblem) || conversationIn(ctx.conversation.session) !== start.conversationId)
      throw error;
    const isLost = error.status === 404 ? error.code === 'NOT_FOUND' : error.code === 'INVALID_STATE';
    if (!isLost) throw error;
    // Rejects where the manifest promises to go on with it.
    await ctx.sessionLost(`the conversation ${start.conversationId} at the other end cannot go on: ${error.message}`);
    return undefined;
  }
}

/** Aborts only when another host goes on with the run. */
function handedOver(signal: AbortSignal): AbortSignal {
  const controller = new AbortController();
  const leave = (): void => {
    if (signal.reason instanceof HandedOver) controller.abort(signal.reason);
  };
  if (signal.aborted) leave();
  else signal.addEventListener('abort', leave, { once: true });
  return controller.signal;
}

/** One conversation there for one here, as far as turns are promised; else one for each execution. */
async function conversationOf(ctx: RunContext<unknown>, remote: Remote): Promise<string> {
  const continues = capabilityLevel(remote.options, CONTINUITY) !== 'unsupported';
  const known = continues ? conversationIn(ctx.conversation.session) : undefined;
  return known ?? (await newConversation(ctx, remote));
}

async function newConversation(ctx: RunContext<unknown>, remote: Remote): Promise<string> {
  const reply = await remote.call('POST', '/v1/conversations', { signal: ctx.signal });
  const { id } = read(conversationReply, reply, 'POST /v1/conversations');
  if (capabilityLevel(remote.options, CONTINUITY) !== 'unsupported') await ctx.setSession({ conversationId: id });
  return id;
}

function conversationIn(session: Json | undefined): string | undefined {
  if (typeof session !== 'object' || session === null || Array.isArray(session)) return undefined;
  return typeof session.conversationId === 'string' ? session.conversationId : undefined;
}
