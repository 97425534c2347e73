/** Stopping the execution at the other end. The request is passed on, and only its confirmation lets this run settle. */
import { setTimeout as delay } from 'node:timers/promises';
import { clip } from '../../protocol/json.js';
import { MAX_MESSAGE_LENGTH } from '../../protocol/limits.js';
import type { RunContext, RunResult } from '../provider.js';
import { type Remote, RemoteProblem, within } from './http.js';
import { endingOf } from './mirror.js';
import { follow } from './stream.js';

/** What a failed run waits for its cancel to be taken. */
const LET_GO_MS = 5_000;
/** Longer than any host waits for a provider to settle, unless it is configured to wait longer. */
const ABANDONED_MS = 60_000;

/**
 * Resolves when the other end says that it is over. As long as it does not, or says that code there goes on
 * (`abandoned`), this run does not settle, and its host calls it abandoned too.
 */
export async function stopRemote(
  ctx: RunContext<unknown>,
  remote: Remote,
  executionId: string,
  after: number,
): Promise<RunResult> {
  const { reason } = ctx.signal;
  const why = reason instanceof Error ? reason.message : 'stopped';
  // Patience counts from here.
  remote.heard();
  const never = new AbortController();
  try {
    await remote.call('POST', `/v1/executions/${executionId}:cancel`, {
      body: { reason: clip(why, MAX_MESSAGE_LENGTH) },
    });
    for await (const events of follow(remote, executionId, after, never.signal)) {
      for (const event of events) {
        const ending = endingOf(event, remote);
        if (ending === undefined) continue;
        if (ending.how !== 'cancelled') return {};
        ctx.log('debug', 'the remote execution was cancelled', { executionId, confirmation: ending.confirmation });
        if (ending.confirmation === 'abandoned') await delay(ABANDONED_MS, undefined, { ref: false });
        return ending.confirmation === 'forced' ? { forced: true } : {};
      }
    }
  } catch (error) {
    // Gone there: nothing is left to stop.
    if (error instanceof RemoteProblem && (error.status === 404 || error.status === 410)) return {};
    ctx.log('warn', 'the remote execution may still run: its cancel was not confirmed', {
      executionId,
      error: remote.said(error),
    });
    throw error;
  }
  return {};
}

/** Our execution fails: what nobody watches any more should not go on. */
export async function letGo(ctx: RunContext<unknown>, remote: Remote, executionId: string): Promise<void> {
  const limit = within(LET_GO_MS);
  try {
    const body = { reason: 'the execution that started it has failed' };
    await remote.call('POST', `/v1/executions/${executionId}:cancel`, { body, signal: limit.signal });
  } catch (error) {
    ctx.log('warn', 'the remote execution may still run', { executionId, error: remote.said(error) });
  } finally {
    limit.end();
  }
}
