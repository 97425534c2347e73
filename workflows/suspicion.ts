/** How an attempt ends when its host falls silent: suspected first, and only then asked whether it is there. */
import { sleep } from '@temporalio/workflow';
import type { LogState } from '../protocol/log/state.js';
import { type AttemptOutcome, watch } from './attempt.js';
import type { AttemptRef, PoolSettings } from './messages.js';

/**
 * A host that takes `watch` and falls silent again, so many times in a row and with nothing new in its log, is as good
 * as gone. One that spoke for this many heartbeat timeouts starts anew.
 */
const MAX_SILENCES = 8;
const SOUND_TIMEOUTS = 4;
/** A timeout that comes later than this after it was due tells of a server that was away, and nothing of the host. */
const LATE_MS = 2_000;

/**
 * Sees an attempt to its end. A suspicion that `state` has made pointless (the execution ends, or is suspended) is
 * returned as it is; any other becomes an outcome of the host's own, or the loss of the attempt.
 */
export async function endOf(
  first: Promise<AttemptOutcome>,
  ref: AttemptRef,
  pool: PoolSettings,
  state: () => LogState,
): Promise<AttemptOutcome> {
  let outcome = await first;
  let asked = false;
  let unheard = false;
  let silences = 0;
  while (outcome.kind === 'suspect' || outcome.kind === 'superseded') {
    const { host, result, ending } = state();
    if (result !== undefined || ending !== undefined || host?.suspended) break;
    if (host === undefined || asked) return lost(outcome, host === undefined);
    const from = Date.now();
    outcome = await watch(ref, host, pool, pool.leaseMs);
    asked = !worthAsking(outcome, unheard, Date.now() - from - pool.leaseMs);
    unheard = outcome.kind === 'suspect' && outcome.host === 'unheard';
    const spoke = state().host?.lastBatch !== host.lastBatch;
    silences = spoke || Date.now() - from > SOUND_TIMEOUTS * pool.heartbeatTimeoutMs ? 0 : silences + 1;
    if (asked || silences < MAX_SILENCES) continue;
    // A host that still acts has until then to be done with its provider.
    await sleep(pool.leaseMs, { summary: 'its host falls silent again and again' });
    asked = true;
  }
  return outcome;
}

/** Whether a host that was asked is to be asked again before it is taken for gone: outages, each by itself, end nothing. */
function worthAsking(outcome: AttemptOutcome, unheardBefore: boolean, overdueMs: number): boolean {
  if (outcome.kind !== 'suspect') return false;
  switch (outcome.host) {
    case 'held': // It took it and fell silent later.
      return true;
    case 'unheard': // It took it in the very moment in which the server went away, or was frozen or cut off by then.
      return !unheardBefore;
    case 'untaken':
      return overdueMs > LATE_MS;
    case 'failed':
      return false;
  }
}

type Suspicion = Extract<AttemptOutcome, { kind: 'suspect' | 'superseded' }>;

function lost(suspicion: Suspicion, unannounced: boolean): AttemptOutcome {
  const why = suspicion.kind === 'suspect' ? suspicion.why : suspicion.message;
  const untaken = unannounced && suspicion.kind === 'suspect' && suspicion.host === 'unheard';
  const message = untaken
    ? `no worker that took it showed a sign of life (${why})`
    : `the provider's host is gone (${why})`;
  return { kind: 'settled', result: { how: 'lost', message, ...(untaken && { untaken }) } };
}
