/**
 * The host: what holds the live providers of one worker, and the activities that reach them. `run` comes from a
 * provider's queue; `watch`, `deliver` and `stop` from the host's own, so that answering and stopping never wait for
 * a slot.
 */
import { randomBytes } from 'node:crypto';
import { ApplicationFailure, Context } from '@temporalio/activity';
import type { LogReader } from '../log/reader.js';
import { actionResponseSchema } from '../protocol/action.js';
import { base32 } from '../protocol/ids.js';
import type { AnyProvider, RunContext } from '../providers/provider.js';
import type {
  DeliverInput,
  HostActivities,
  HostOutcome,
  HostRef,
  PoolSettings,
  RunInput,
  StopInput,
  StopOutcome,
} from '../workflows/messages.js';
import { faultPoint } from './fault-points.js';
import { type Launch, prepare } from './launch.js';
import { LiveRun } from './live-run.js';
import { ALIVE, passes, type ServerCalls } from './server-calls.js';
import { supervise } from './supervision.js';
import { onAbort, sleepOr } from './waiting.js';

export interface HostOptions {
  readonly calls: ServerCalls;
  readonly reader: LogReader;
  readonly providers: ReadonlyMap<string, AnyProvider>;
  /** A run is continued as new after this many batches or bytes. */
  readonly rollover: { readonly batches: number; readonly bytes: number };
  readonly log: RunContext['log'];
}

/** How long the end of an attempt that is not in the log is kept for whoever asks. */
const FORGET_MS = 3_600_000;

/** A run may grow to so many times what makes it roll over, while it rolls over. */
const OVERRUN = 2;

/** Between two tries of a read that the server did not answer. */
const RETRY_MS = 500;
/** How often it is looked whether an end is on record, and how long one look may take. */
const RECORDED_POLL_MS = 50;
const STATUS_MS = 1_000;

const DRAINING: HostOutcome = {
  kind: 'settled',
  result: { how: 'lost', message: 'the worker shuts down', orderly: true },
};

/** How many times in one heartbeat timeout a host shows that it is alive. */
const BEATS_PER_TIMEOUT = 3;

/** A slot is held from the start of `run` until the provider's code has really returned, across rollovers. */
export interface Occupancy {
  /** `run` activities under way. */
  inRun: number;
  readonly held: Set<object>;
}

export class Host implements HostActivities {
  readonly id = base32(randomBytes(10));
  readonly queue = `holdfast-host-${this.id}`;
  readonly watchQueue = `holdfast-host-${this.id}-watch`;
  private readonly runs = new Map<string, LiveRun>();
  /** Tokens of attempts whose end went into the log a moment ago. */
  private readonly ended = new Set<string>();
  private readonly occupancies = new Map<string, Occupancy>();
  private readonly freed = new Set<() => void>();
  private closing = false;
  private draining = false;

  constructor(private readonly options: HostOptions) {}

  /** What of a provider's slots is taken at this moment. */
  occupancy(providerId: string): Occupancy {
    let occupancy = this.occupancies.get(providerId);
    if (occupancy === undefined) {
      occupancy = { inRun: 0, held: new Set() };
      this.occupancies.set(providerId, occupancy);
    }
    return occupancy;
  }

  /** Calls back whenever a slot may have become free. */
  onFreed(callback: () => void): void {
    this.freed.add(callback);
  }

  // --- activities ---------------------------------------------------------------------------------------------------

  run = async (input: RunInput): Promise<HostOutcome> => {
    const occupancy = this.occupancy(input.providerId);
    const slot: { live?: LiveRun } = {};
    occupancy.inRun += 1;
    occupancy.held.add(slot);
    const release = (): void => {
      occupancy.held.delete(slot);
      for (const callback of this.freed) callback();
    };
    try {
      return await this.launch(input, slot);
    } finally {
      occupancy.inRun -= 1;
      const gone = slot.live?.returned;
      if (gone === undefined) release();
      else void gone.then(release);
    }
  };

  private async launch(input: RunInput, slot: { live?: LiveRun }): Promise<HostOutcome> {
    const activity = Context.current();
    const { info } = activity;
    // Unpause in the UI starts an activity again, whatever its retry policy says.
    if (info.attempt > 1) return { kind: 'superseded', message: 'the activity was started a second time' };
    // From here on a loss counts against the execution: a host had it.
    activity.heartbeat(ALIVE);
    const runId = info.workflowExecution?.runId ?? '';
    await faultPoint('run.taken', input.workflowId);
    const launch = await this.prepare(input, runId);
    if ('kind' in launch) return launch;
    // It was taken just before this worker began to drain: another one starts it at once.
    if (this.draining) return DRAINING;
    const live = this.register(input, launch);
    live.runId = runId;
    const refused = await this.announce(live, launch, input.pool);
    if (refused !== undefined) return refused;
    live.start(input.pool.heartbeatTimeoutMs, () => this.isCurrent(live));
    slot.live = live;
    return await this.attend(live, input.pool);
  }

  /** Prepares the attempt, showing that this host lives meanwhile: a long journal takes its time to be read. */
  private async prepare(input: RunInput, runId: string): Promise<Launch | HostOutcome> {
    const activity = Context.current();
    const beat = setInterval(() => activity.heartbeat(ALIVE), input.pool.heartbeatTimeoutMs / BEATS_PER_TIMEOUT);
    const request = { ...input, runId, queue: this.queue, watchQueue: this.watchQueue };
    try {
      for (;;) {
        if (this.draining) return DRAINING;
        try {
          return await prepare(this.options.reader, this.options.providers, request);
        } catch (error) {
          if (!passes(error) || activity.cancellationSignal.aborted) throw error;
          await sleepOr(RETRY_MS);
        }
      }
    } finally {
      clearInterval(beat);
    }
  }

  watch = async (input: HostRef & { readonly pool: PoolSettings }): Promise<HostOutcome> => {
    const { info } = Context.current();
    if (info.attempt > 1) return { kind: 'superseded', message: 'the activity was started a second time' };
    await faultPoint('watch.taken', input.workflowId);
    if (this.ended.has(input.token)) return { kind: 'logged' };
    const live = this.runs.get(input.token);
    if (live === undefined)
      return { kind: 'settled', result: { how: 'lost', message: 'its host does not know the attempt' } };
    const runId = info.workflowExecution?.runId ?? '';
    if (await this.isReset(live, runId)) return { kind: 'reset' };
    live.runId = runId;
    return await this.attend(live, input.pool);
  };

  deliver = async (input: DeliverInput): Promise<void> => {
    if (this.ended.has(input.token)) return;
    const live = this.runs.get(input.token);
    if (live === undefined) throw ApplicationFailure.nonRetryable('this host does not know the attempt', 'UNKNOWN');
    if (input.rollover === true) live.askRollover();
    if (input.answer !== undefined) {
      await faultPoint('answer.received', input.workflowId);
      const response = actionResponseSchema.parse(input.answer.response);
      live.answer(input.answer.actionId, response);
    }
  };

  stop = async (input: StopInput): Promise<StopOutcome> => {
    // It settled while the request to stop it was under way.
    if (this.ended.has(input.token)) return { confirmation: 'cooperative' };
    const live = this.runs.get(input.token);
    if (live === undefined) throw ApplicationFailure.nonRetryable('this host does not know the attempt', 'UNKNOWN');
    const activity = Context.current();
    await faultPoint('stop.received', input.workflowId);
    const every = (activity.info.heartbeatTimeoutMs ?? 3_000) / BEATS_PER_TIMEOUT;
    const beat = setInterval(() => activity.heartbeat(), every);
    try {
      return { confirmation: await live.stop(input.reason, input.graceMs) };
    } finally {
      clearInterval(beat);
    }
  };

  // --- the life of a run --------------------------------------------------------------------------------------------

  private register(input: RunInput, launch: Launch): LiveRun {
    const { workflowId, attempt, pool } = input;
    const fields = { executionId: launch.state.executionId, attempt };
    const live = new LiveRun({
      workflowId,
      launch,
      calls: this.options.calls,
      perRun: {
        batches: this.options.rollover.batches * OVERRUN + 100,
        bytes: this.options.rollover.bytes * OVERRUN,
      },
      log: (level, message, more) => this.options.log(level, message, { ...fields, ...more }),
    });
    this.runs.set(live.token, live);
    void supervise(live, pool, this.options.calls).then(() => this.forget(live, pool));
    return live;
  }

  /**
   * Announces the host, and learns whether it may call the provider: only a heartbeat that is accepted without a cancel
   * after the announcement says so. Returns the end of the attempt when it may not.
   */
  private async announce(live: LiveRun, launch: Launch, pool: PoolSettings): Promise<HostOutcome | undefined> {
    const { info } = Context.current();
    const patience = AbortSignal.timeout(pool.heartbeatTimeoutMs);
    try {
      await this.options.calls.signal(live.workflowId, 'announce', launch.announcement, patience);
    } catch {
      await live.stop('could not be announced', 0);
      return { kind: 'superseded', message: 'the host could not announce itself' };
    }
    await faultPoint('run.announced', live.workflowId);
    const beat = await this.options.calls.beat(info.taskToken, pool.heartbeatTimeoutMs);
    if (beat === 'ok' && live.phase === 'announced') {
      live.lastAcknowledged = Date.now();
      return undefined;
    }
    const confirmation = await live.stop('not started', 0);
    return beat === 'cancel' || beat === 'ok'
      ? { kind: 'stopped', confirmation }
      : { kind: 'superseded', message: 'the activity is no longer the one that counts' };
  }

  /** Whether the log still counts on this host; asked again until the server tells, or the run is given up. */
  private async isCurrent(live: LiveRun): Promise<boolean> {
    for (;;) {
      try {
        const { fold } = await this.options.reader.foldRun(live.workflowId);
        return fold.state.host?.token === live.token;
      } catch (error) {
        if (live.phase === 'settled') return false;
        this.options.log('warn', 'the log cannot be read; trying again', { error: String(error) });
        await sleepOr(1_000);
      }
    }
  }

  /** Stays with a live provider, as the activity that shows the server it is alive, until something ends that. */
  private async attend(live: LiveRun, pool: PoolSettings): Promise<HostOutcome> {
    const activity = Context.current();
    const over = new AbortController();
    live.watchers += 1;
    live.handedOver = false;
    try {
      const outcome = await Promise.race([
        live.outcome,
        live.rolloverDue(this.options.rollover, over.signal).then((): HostOutcome => ({ kind: 'rollover' })),
        this.beatUntilGone(live, activity, pool, over.signal).then(
          (): HostOutcome => ({ kind: 'superseded', message: 'the server no longer counts this activity' }),
        ),
      ]);
      // What is sent from here on counts for the next run.
      if (outcome.kind === 'rollover') {
        live.resetCounts();
        live.handedOver = true;
      }
      if (outcome.kind === 'logged' || outcome.kind === 'rollover')
        await faultPoint(`host.returns.${outcome.kind}`, live.workflowId);
      return outcome;
    } finally {
      over.abort();
      live.watchers -= 1;
    }
  }

  /**
   * Heartbeats, ours beside the SDK's; resolves when the server no longer knows this activity. The first goes out at
   * once: a task may have waited here while this process was frozen, and only an accepted one says that it still counts.
   */
  private async beatUntilGone(
    live: LiveRun,
    activity: Context,
    pool: PoolSettings,
    signal: AbortSignal,
  ): Promise<void> {
    const every = pool.heartbeatTimeoutMs / BEATS_PER_TIMEOUT;
    for (;;) {
      if (signal.aborted) return await new Promise(() => undefined);
      activity.heartbeat(ALIVE);
      const sent = Date.now();
      const answer = await this.options.calls.beat(activity.info.taskToken, every);
      if (answer === 'ok' || answer === 'cancel') live.lastAcknowledged = Math.max(live.lastAcknowledged, sent);
      if (answer === 'gone') return;
      await sleepOr(every, signal);
    }
  }

  /**
   * What became of an attempt stays here until nobody can come for it any more: of one whose end is in the log only that
   * it was here, for whoever is on the way to stop or watch it; else all, until the execution is closed, for an hour at
   * most.
   */
  private async forget(live: LiveRun, pool: PoolSettings): Promise<void> {
    const { kind } = await live.outcome;
    const keepMs = 2 * (pool.heartbeatTimeoutMs + pool.leaseMs);
    if (kind === 'logged') {
      this.ended.add(live.token);
      const { token } = live;
      setTimeout(() => this.ended.delete(token), keepMs).unref();
    }
    const until = Date.now() + FORGET_MS;
    while (kind !== 'logged' && !this.closing && Date.now() < until) {
      await sleepOr(keepMs);
      if ((await this.options.calls.status(live.workflowId, live.runId, keepMs)) === 'closed') break;
    }
    this.runs.delete(live.token);
  }

  /** Whether this run came out of a *Reset*. A read that fails is no verdict on a live provider: it is tried again. */
  private async isReset(live: LiveRun, runId: string): Promise<boolean> {
    const activity = Context.current();
    while (live.phase !== 'settled') {
      try {
        const page = await this.options.reader.history.page({ workflowId: live.workflowId, runId });
        const start = page.items.find((item) => item.kind === 'start');
        return start?.kind === 'start' && start.originalRunId !== runId;
      } catch (error) {
        if (!passes(error)) throw error;
        activity.heartbeat(ALIVE);
        await sleepOr(RETRY_MS);
      }
    }
    return false;
  }

  // --- draining -----------------------------------------------------------------------------------------------------

  /** From here on no provider is started. */
  beginDrain(): void {
    this.draining = true;
  }

  /** Resolves when no provider is live any more, or when `signal` aborts. */
  async idle(signal: AbortSignal): Promise<void> {
    const running = [...this.runs.values()].filter((live) => live.phase !== 'settled').map((live) => live.outcome);
    await Promise.race([Promise.all(running), new Promise<void>((r) => onAbort(signal, r))]);
  }

  /** Stops what is still live, and returns what ends by that as `PROVIDER_LOST`: what had no journal and was called. */
  async stopAll(graceMs: number): Promise<readonly LiveRun[]> {
    this.closing = true;
    const live = [...this.runs.values()].filter((run) => run.phase !== 'settled');
    // One that was not called yet is begun elsewhere, whether it has a journal or not.
    const lost = live.filter((run) => !run.journaled && run.phase === 'running');
    await Promise.all(live.map((run) => run.giveUp('the worker shuts down', { graceMs, orderly: true })));
    return lost;
  }

  /**
   * Resolves when the executions of `lost` have ended, or when `signal` aborts. Ours may be the only worker, and the
   * server may go with it, as in `holdfast dev`: then who looks later would find them running.
   */
  async recorded(lost: readonly LiveRun[], signal: AbortSignal): Promise<void> {
    const goesOn = async ({ workflowId, runId }: LiveRun): Promise<boolean> =>
      (await this.options.calls.status(workflowId, runId, STATUS_MS)) !== 'closed';
    const all = async (): Promise<void> => {
      for (const live of lost) while (!signal.aborted && (await goesOn(live))) await sleepOr(RECORDED_POLL_MS, signal);
    };
    await Promise.race([all(), new Promise<void>((resolve) => onAbort(signal, resolve))]);
  }
}
