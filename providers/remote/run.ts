/** One attempt: attach to the execution at the other end, mirror its log, and stop it when it has to stop. */

import { HoldfastError } from '../../protocol/errors.js';
import { clip, type JsonObject } from '../../protocol/json.js';
import { MAX_MESSAGE_LENGTH } from '../../protocol/limits.js';
import { HandedOver, type RunContext, type RunResult } from '../provider.js';
import { asHoldfastError, Remote, RemoteProblem, within } from './http.js';
import { Journal } from './journal.js';
import { type Ending, Mirror } from './mirror.js';
import type { ResolvedOptions } from './options.js';
import { Questions } from './questions.js';
import { startRemote } from './start.js';
import { letGo, stopRemote } from './stop.js';
import { follow } from './stream.js';
import { executionReply, read } from './wire.js';

/** Usage is worth no longer wait. */
const USAGE_MS = 10_000;

export async function runRemote(ctx: RunContext<JsonObject>, options: ResolvedOptions): Promise<RunResult> {
  const remote = new Remote(options, (message, fields) => ctx.log('warn', message, fields));
  const journal = new Journal(ctx);
  // Else everything that it does is still to come, from the first event on.
  const goesOn = journal.executionId !== undefined;
  try {
    const executionId = await startRemote(ctx, remote, journal);
    let ending: Ending;
    try {
      ending = await mirrored(ctx, remote, journal, executionId, goesOn);
    } catch (error) {
      // The next attempt goes on with it.
      if (ctx.signal.reason instanceof HandedOver) throw error;
      if (ctx.signal.aborted) return await stopRemote(ctx, remote, executionId, journal.after);
      await letGo(ctx, remote, executionId);
      throw error;
    }
    return await resultOf(ctx, remote, executionId, ending);
  } catch (error) {
    throw asHoldfastError(error);
  }
}

async function mirrored(
  ctx: RunContext<JsonObject>,
  remote: Remote,
  journal: Journal,
  executionId: string,
  goesOn: boolean,
): Promise<Ending> {
  ctx.signal.throwIfAborted();
  const questions = new Questions(ctx, remote, journal, executionId);
  const done = new AbortController();
  try {
    if (goesOn) await goOn(ctx, remote, questions, executionId);
    const mirror = new Mirror(ctx, remote, journal, questions);
    const signal = AbortSignal.any([ctx.signal, done.signal]);
    return await Promise.race([endingOf(remote, executionId, journal.after, mirror, signal), questions.failed]);
  } finally {
    done.abort();
    questions.withdrawAll();
  }
}

/** What an earlier attempt left: answers on their way, and the question that is open there. */
async function goOn(
  ctx: RunContext<unknown>,
  remote: Remote,
  questions: Questions,
  executionId: string,
): Promise<void> {
  const path = `/v1/executions/${executionId}`;
  const askOpen = async (): Promise<void> => {
    const reply = await remote.call('GET', path, { signal: ctx.signal });
    for (const action of read(executionReply, reply, `GET ${path}`).pendingActions ?? [])
      if (!questions.isUndelivered(action.id)) questions.ask(action, 'state');
  };
  // Asked first: an answer that came while nobody was here is given only until something else is on record.
  await askOpen();
  if (await questions.deliverPending()) await askOpen();
}

async function endingOf(
  remote: Remote,
  executionId: string,
  after: number,
  mirror: Mirror,
  signal: AbortSignal,
): Promise<Ending> {
  for await (const events of follow(remote, executionId, after, signal)) {
    const ending = await mirror.take(events);
    if (ending !== undefined) return ending;
    signal.throwIfAborted();
  }
  throw new RemoteProblem('the remote log ended without saying how', false);
}

async function resultOf(
  ctx: RunContext<unknown>,
  remote: Remote,
  executionId: string,
  ending: Ending,
): Promise<RunResult> {
  // Also of what failed there.
  const usage = await usageOf(ctx, remote, executionId);
  if (usage !== undefined) await ctx.reportUsage(usage);
  switch (ending.how) {
    case 'failed':
      throw ending.error;
    case 'cancelled': {
      const why = ending.reason === undefined ? '' : `: ${ending.reason}`;
      const message = `the remote execution was cancelled at the other end${why}`;
      throw new HoldfastError('PROVIDER_ERROR', clip(message, MAX_MESSAGE_LENGTH));
    }
    case 'completed': {
      const { finalOutput } = ending;
      return { ...(finalOutput === undefined ? {} : { finalOutput }), ...(usage === undefined ? {} : { usage }) };
    }
    default:
      throw ending satisfies never;
  }
}

async function usageOf(ctx: RunContext<unknown>, remote: Remote, executionId: string): Promise<RunResult['usage']> {
  const path = `/v1/executions/${executionId}`;
  const limit = within(USAGE_MS, ctx.signal);
  try {
    const { usage } = read(executionReply, await remote.call('GET', path, { signal: limit.signal }), `GET ${path}`);
    if (usage === undefined) return undefined;
    const { inputTokens, outputTokens, costUsd } = usage;
    return {
      ...(inputTokens === undefined ? {} : { inputTokens }),
      ...(outputTokens === undefined ? {} : { outputTokens }),
      ...(costUsd === undefined ? {} : { costUsd }),
    };
  } catch (error) {
    ctx.log('warn', 'the usage of the remote execution is not known', { error: String(error) });
    return undefined;
  } finally {
    limit.end();
  }
}
