/**
 * One attempt as the workflow sees it: the `run` activity that launches a provider and holds it, `watch` that takes
 * over (after a rollover, or to see whether a suspected host is really gone), `deliver` and `stop` on the host's own
 * queue. Each function is one continuation; what it learns goes back to the main loop, which alone marks and acts.
 */
import {
  ActivityCancellationType,
  ActivityFailure,
  CancellationScope,
  condition,
  isCancellation,
  proxyActivities,
  TimeoutFailure,
} from '@temporalio/workflow';
import type { Confirmation } from '../protocol/event.js';
import type { Json } from '../protocol/json.js';
import type { Host } from '../protocol/log/state.js';
import type { AttemptRef, HostActivities, HostOutcome, PoolSettings, StopInput } from './messages.js';

/** Temporal asks for a bound; an execution has its own (`timeoutSeconds`), or none. */
const UNBOUNDED = '3650 days';
/** How long `deliver` waits for the host to take it before it is sent again. */
const DELIVER_RETRY_MS = 5_000;

export type AttemptOutcome =
  | HostOutcome
  | { readonly kind: 'cancelled' }
  /**
   * What is known of the host: it took the activity and showed signs of life before it fell silent (`held`), it took it
   * and showed none (`unheard`), it did not take it (`untaken`), or it ended it with an error (`failed`).
   */
  | { readonly kind: 'suspect'; readonly why: string; readonly host: 'held' | 'unheard' | 'untaken' | 'failed' };

/** Temporal's own retries are off everywhere: attempts are the workflow's. */
const ONCE = { maximumAttempts: 1 } as const;

/** Launches a provider from its pool's queue, where it may wait for as long as it takes. */
export function run(
  ref: AttemptRef & { readonly providerId: string },
  taskQueue: string,
  pool: PoolSettings,
): Promise<AttemptOutcome> {
  const { run } = proxyActivities<HostActivities>({
    taskQueue,
    startToCloseTimeout: UNBOUNDED,
    heartbeatTimeout: pool.heartbeatTimeoutMs,
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: ONCE,
    summary: `attempt ${ref.attempt}`,
  });
  return outcomeOf(run({ ...ref, pool }));
}

/** Joins a live provider in its host. After a suspicion: when nobody takes it within `patienceMs`, the host is gone. */
export function watch(ref: AttemptRef, host: Host, pool: PoolSettings, patienceMs: number): Promise<AttemptOutcome> {
  const { watch } = proxyActivities<HostActivities>({
    taskQueue: host.watchQueue,
    scheduleToStartTimeout: patienceMs,
    startToCloseTimeout: UNBOUNDED,
    heartbeatTimeout: pool.heartbeatTimeoutMs,
    cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    retry: ONCE,
    summary: `attempt ${ref.attempt}: is its host still there?`,
  });
  return outcomeOf(watch({ ...ref, token: host.token, pool }));
}

async function outcomeOf(activity: Promise<HostOutcome>): Promise<AttemptOutcome> {
  try {
    return await activity;
  } catch (error) {
    if (isCancellation(error)) return { kind: 'cancelled' };
    const cause = error instanceof ActivityFailure ? error.cause : error;
    if (cause instanceof TimeoutFailure) {
      // Each heartbeat of a host carries something: without it, the task was lost on its way, or its host with it.
      const heard = cause.lastHeartbeatDetails === undefined ? 'unheard' : 'held';
      const host = cause.timeoutType === 'HEARTBEAT' ? heard : 'untaken';
      return { kind: 'suspect', why: `no ${cause.timeoutType} in time`, host };
    }
    return { kind: 'suspect', why: cause instanceof Error ? cause.message : String(cause), host: 'failed' };
  }
}

/**
 * Hands an answer (or the wish to roll over) to the host, again and again while `wanted` holds; says whether it got
 * there. A host drops what it knows already.
 */
export async function deliver(
  ref: AttemptRef,
  host: Host,
  what: { readonly answer?: { readonly actionId: string; readonly response: Json }; readonly rollover?: boolean },
  wanted: () => boolean,
): Promise<boolean> {
  const { deliver } = proxyActivities<HostActivities>({
    taskQueue: host.queue,
    scheduleToStartTimeout: DELIVER_RETRY_MS,
    startToCloseTimeout: DELIVER_RETRY_MS,
    retry: ONCE,
    summary: what.answer === undefined ? 'roll over' : `answer to ${what.answer.actionId}`,
  });
  for (let tries = 0; wanted(); tries++) {
    try {
      await deliver({ ...ref, token: host.token, ...what });
      return true;
    } catch {
      await condition(() => !wanted(), Math.min(10_000, 250 * 2 ** Math.min(tries, 6)));
    }
  }
  return false;
}

/**
 * Stops the provider in its host and says how that ended. The first `stop` that nobody takes is a suspicion (a server
 * that was away times out everything at once when it returns); a second one, sent after it, is the verdict.
 */
export async function stop(
  ref: AttemptRef,
  host: Host,
  pool: PoolSettings,
  reason: StopInput['reason'],
): Promise<Confirmation> {
  const { stop } = proxyActivities<HostActivities>({
    taskQueue: host.queue,
    scheduleToStartTimeout: pool.leaseMs,
    startToCloseTimeout: pool.stopGraceMs + 15_000,
    heartbeatTimeout: pool.heartbeatTimeoutMs,
    retry: ONCE,
    summary: `stop (${reason})`,
  });
  for (let untaken = 0; untaken < 2; untaken++) {
    try {
      const { confirmation } = await stop({ ...ref, token: host.token, reason, graceMs: pool.stopGraceMs });
      return confirmation;
    } catch {
      // Not taken in time, or its host died over it: one more try tells.
    }
  }
  return 'lost';
}

/** Runs `body` in a scope of its own that `cancel` ends. */
export function cancellable<T>(body: () => Promise<T>): { readonly result: Promise<T>; cancel(): void } {
  const scope = new CancellationScope();
  return { result: scope.run(body), cancel: () => scope.cancel() };
}
