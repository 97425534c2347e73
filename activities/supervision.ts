/** What watches over a live provider on its own host, whoever else does. */
import type { PoolSettings } from '../workflows/messages.js';
import type { LiveRun } from './live-run.js';
import type { ServerCalls } from './server-calls.js';
import { sleepOr } from './waiting.js';

/**
 * Watches over a run that no activity speaks for: one whose execution is closed is stopped (so *Terminate* leaves
 * nothing running), and a journaled one so early that it is gone before anyone may start it elsewhere. One without
 * recovery is kept, since no second attempt of it can exist.
 */
export async function supervise(live: LiveRun, pool: PoolSettings, calls: ServerCalls): Promise<void> {
  const every = Math.max(200, Math.min(pool.heartbeatTimeoutMs, pool.leaseMs) / 4);
  const over = new AbortController();
  void live.outcome.then(() => over.abort());
  const budget = Math.min(pool.stopGraceMs, pool.leaseMs);
  for (;;) {
    const due = live.lastAcknowledged + pool.heartbeatTimeoutMs + pool.leaseMs - budget;
    const untilDue = live.journaled ? Math.max(1, due - Date.now()) : every;
    await sleepOr(Math.min(every, untilDue), over.signal);
    const now = Date.now();
    if (over.signal.aborted) return;
    if (live.watched && now - live.lastAcknowledged < pool.heartbeatTimeoutMs) continue;
    // Before anything is asked: after a freeze every moment counts, and a server that is away may not answer soon.
    if (live.journaled && now >= due) await live.giveUp('it lost the server for too long', { graceMs: budget });
    else {
      const left = live.journaled ? Math.max(1, Math.min(every, due - now)) : every;
      const status = await calls.status(live.workflowId, live.runId, left);
      if (status === 'closed')
        await live.giveUp('its execution is closed', { graceMs: pool.stopGraceMs, isOver: true });
      // Its run, which was about to roll over, is still there: nobody else can have been given this attempt.
      else if (status === 'running' && live.handedOver) live.lastAcknowledged = now;
    }
  }
}
