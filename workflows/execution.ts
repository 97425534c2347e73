/**
 * An execution's workflow. It is a thin shell: what may happen is decided by the reducer in protocol/, and this file
 * is the life around it. Set the one handler, then read top to bottom: wait for something to change, act on the state
 * as it then is, until the log has its end.
 */
import {
  ApplicationFailure,
  CancellationScope,
  CancelledFailure,
  condition,
  defineQuery,
  makeContinueAsNewFunc,
  proxyActivities,
  setDefaultSignalHandler,
  setHandler,
  sleep,
  workflowInfo,
} from '@temporalio/workflow';
import type { Json } from '../protocol/json.js';
import type { Mark } from '../protocol/log/inputs.js';
import { REDUCER_VERSION } from '../protocol/log/state.js';
import { type AttemptOutcome, cancellable, deliver, run, stop, watch } from './attempt.js';
import { ExecutionLog } from './execution-log.js';
import {
  type CoreActivities,
  EVENTS_QUERY,
  type EventsPage,
  type ExecutionResult,
  type ExecutionStart,
  type FoldCheck,
  WORKFLOW_QUEUE,
} from './messages.js';
import { nextRun } from './next-run.js';
import { Presence } from './presence.js';
import { readable } from './readable.js';
import { endOf } from './suspicion.js';
import { releaseTurn, waitForTurn } from './turn.js';

const core = proxyActivities<CoreActivities>({ taskQueue: WORKFLOW_QUEUE, startToCloseTimeout: '1 minute' });

/** Waits before attempt after attempt is tried again, in milliseconds. */
const RETRY_MS = [0, 0, 1_000, 5_000, 15_000];
/** Past this size the host is asked to roll over, whatever it counted itself. */
const HISTORY_BYTES = 8 * 1024 * 1024;

export async function execution(start: ExecutionStart): Promise<ExecutionResult> {
  if (readable(start).version > REDUCER_VERSION)
    // A plain error fails the task, not the workflow: a newer worker goes on with it.
    throw new Error(`this worker folds logs up to version ${REDUCER_VERSION}; upgrade it for version ${start.version}`);
  const life = new Life(start);
  setDefaultSignalHandler((name, ...args) => life.log.signal(name, args));
  setHandler(defineQuery<EventsPage, [number?, number?]>(EVENTS_QUERY), (after, limit) => life.log.page(after, limit));
  // Temporal's own cancel request is one more thing to learn. Nothing below is cancelled by it.
  CancellationScope.current().cancelRequested.catch(() => life.learnCancel());
  return await CancellationScope.nonCancellable(() => life.live());
}

class Life {
  readonly log: ExecutionLog;
  private readonly presence: Presence;
  private readonly workflowId = workflowInfo().workflowId;
  /** What continuations learned and the loop has yet to mark. */
  private readonly learned: Mark[] = [];
  private readonly delivering = new Map<string, Promise<boolean>>();
  /** The activity that holds the current attempt; undefined when there is none. */
  private holding: { readonly attempt: number; cancel(): void } | undefined;
  private stopping = false;
  private backingOff = false;
  /** The open action whose time runs. */
  private expiring: { readonly actionId: string; cancel(): void } | undefined;
  private rollover: 'no' | 'asked' | 'ready' | 'checking' = 'no';
  private reset = false;
  private cancelRequested = false;
  private woken = 0;

  constructor(private readonly start: ExecutionStart) {
    this.log = new ExecutionLog(start);
    this.presence = new Presence(this.log.state);
  }

  learnCancel(): void {
    this.cancelRequested = true;
    this.learn({ kind: 'cancel_requested' });
  }

  private learn(mark: Mark): void {
    this.learned.push(mark);
  }

  async live(): Promise<ExecutionResult> {
    this.armTimeout();
    this.askForTurn();
    if (this.log.state.host !== undefined && !this.log.state.host.suspended) this.hold('watch');
    while (this.log.state.result === undefined) {
      const [version, woken] = [this.log.version, this.woken];
      this.act();
      this.presence.show(this.log.state);
      const news = (): boolean => this.learned.length > 0 || this.log.version !== version || this.woken !== woken;
      await condition(() => news() || this.shouldRollOver() || this.isReset());
      this.endIfReset();
      const goesOn = this.learned.length === 0 && this.log.state.ending === undefined;
      if (this.rollover === 'ready' && goesOn) await this.rollOver();
      for (let mark = this.learned.shift(); mark !== undefined; mark = this.learned.shift()) this.enter(mark);
    }
    this.presence.show(this.log.state);
    return await this.finish();
  }

  private enter(mark: Mark): void {
    const over = this.log.state.ending !== undefined || this.log.state.result !== undefined;
    if (mark.kind === 'attempt') {
      this.backingOff = false;
      if (over) return;
    }
    // Answered in the meantime: that decided, and there is nothing to mark.
    if (mark.kind === 'expired' && this.log.state.open?.request.id !== mark.actionId) return;
    this.log.mark(mark);
    if (mark.kind === 'attempt') this.hold('run');
  }

  /** Starts whatever the state calls for and is not under way. Everything here ends by learning something. */
  private act(): void {
    const { state } = this.log;
    this.armExpiry();
    if (state.ending !== undefined) {
      if (!this.stopping) {
        this.stopping = true;
        void this.stop(state.ending.by);
      }
      return;
    }
    this.deliverAnswers();
    if (this.shouldRollOver() && !state.open?.suspended) this.askRollover();
    if (this.holding !== undefined || this.backingOff || this.rollover !== 'no') return;
    if (state.request.needsTurn && !state.hasTurn) return;
    if (state.open?.suspended) {
      // Nothing is held while a suspended execution waits, so it can roll over at any time.
      if (this.shouldRollOver()) this.readyToRollOver();
      return;
    }
    if (state.host !== undefined && !state.host.suspended) this.hold('watch');
    else this.nextAttempt();
  }

  /** Tells the conversation that this execution is there and wants its turn; a conversation that ended gives none. */
  private askForTurn(): void {
    const { state } = this.log;
    if (!state.request.needsTurn || state.hasTurn) return;
    const waits = (): boolean =>
      !this.log.state.hasTurn && this.log.state.ending === undefined && this.log.state.result === undefined;
    void waitForTurn(state, waits).catch(() => {
      const result = { how: 'refused', code: 'INVALID_STATE', message: 'its conversation has ended' } as const;
      this.learn({ kind: 'settled', attempt: state.attempt, result });
    });
  }

  /** Schedules `run`: at once for the first attempt and after an answer, with growing delay after losses. */
  private nextAttempt(): void {
    const { attempt, host, attemptLost, recoveries } = this.log.state;
    if (attempt === 1 && host === undefined && attemptLost !== true) return this.hold('run');
    this.backingOff = true;
    const losses = Math.max(recoveries.sinceEntry, recoveries.total - 1);
    const pause = RETRY_MS[Math.min(losses, RETRY_MS.length - 1)] ?? 0;
    const waited = pause === 0 ? Promise.resolve() : sleep(pause, { summary: `attempt ${attempt + 1} waits` });
    void waited.then(() => this.learn({ kind: 'attempt', attempt: attempt + 1 }));
  }

  private hold(how: 'run' | 'watch'): void {
    const { attempt } = this.log.state;
    const ref = { workflowId: this.workflowId, attempt, providerId: this.log.state.providerId };
    const { taskQueue, pool } = this.start;
    const host = this.log.state.host;
    const { result, cancel } = cancellable(() =>
      how === 'watch' && host !== undefined
        ? // It takes over without a suspicion, so the host has all the time that a heartbeat has.
          watch(ref, host, pool, pool.heartbeatTimeoutMs)
        : run(ref, taskQueue, pool),
    );
    this.holding = { attempt, cancel };
    void this.follow(result);
  }

  /** Sees an attempt to its end, and learns from it. */
  private async follow(first: Promise<AttemptOutcome>): Promise<void> {
    const { attempt } = this.log.state;
    const ref = { workflowId: this.workflowId, attempt };
    const outcome = await endOf(first, ref, this.start.pool, () => this.log.state);
    this.holding = undefined;
    // Whoever was asked to roll over is gone; whoever comes next is asked anew.
    if (this.rollover === 'asked') this.rollover = 'no';
    this.woken += 1;
    if (outcome.kind === 'settled') this.learn({ kind: 'settled', attempt, result: outcome.result });
    else if (outcome.kind === 'reset') this.reset = true;
    else if (outcome.kind === 'rollover') this.readyToRollOver();
    else if (outcome.kind === 'stopped' && this.log.state.ending === undefined)
      // It could not be sure that it may call its provider, so it did not.
      this.learn({ kind: 'settled', attempt, result: { how: 'lost', message: 'the provider was not started' } });
    else if (outcome.kind === 'cancelled' || outcome.kind === 'stopped') return;
    else if (outcome.kind === 'logged' && this.log.state.result === undefined && !this.log.state.host?.suspended)
      this.learn({ kind: 'settled', attempt, result: { how: 'lost', message: 'the provider ended without a result' } });
  }

  private deliverAnswers(): void {
    const { host, answers, attempt } = this.log.state;
    if (!host?.started || host.suspended) return;
    for (const { action, response, attempt: asker, takenBy, suspended } of answers) {
      if (asker !== attempt || takenBy === attempt || suspended || this.delivering.has(action.id)) continue;
      const wanted = (): boolean =>
        this.log.state.host?.token === host.token &&
        this.log.state.ending === undefined &&
        (this.rollover === 'no' || this.rollover === 'asked');
      const answer = { actionId: action.id, response: response as Json };
      const delivery = deliver({ workflowId: this.workflowId, attempt }, host, { answer }, wanted);
      this.delivering.set(action.id, delivery);
      // What a rollover cut short is sent again, by this run or the next.
      void delivery.then((delivered) => {
        if (!delivered) this.delivering.delete(action.id);
        this.woken += 1;
      });
    }
  }

  private readyToRollOver(): void {
    this.rollover = 'ready';
    this.woken += 1;
  }

  /** The history is long, and somebody is there to hand it over to: a live host, or nobody at all. */
  private shouldRollOver(): boolean {
    const { host, open, ending } = this.log.state;
    if (this.rollover !== 'no' || ending !== undefined) return false;
    const idle = open?.suspended === true && this.holding === undefined && !this.backingOff;
    if (!idle && (host?.started !== true || host.suspended)) return false;
    const info = workflowInfo();
    return info.continueAsNewSuggested || info.historySize > HISTORY_BYTES;
  }

  private askRollover(): void {
    const { host, attempt } = this.log.state;
    if (host === undefined) return;
    this.rollover = 'asked';
    const wanted = (): boolean => this.rollover === 'asked' && this.log.state.host?.token === host.token;
    void deliver({ workflowId: this.workflowId, attempt }, host, { rollover: true }, wanted);
  }

  private async stop(by: 'cancel' | 'timeout'): Promise<void> {
    const { holding } = this;
    // No host has announced itself: the server ends a `run` that nobody took, a host that took it answers itself.
    if (holding !== undefined && this.log.state.host === undefined) {
      holding.cancel();
      await condition(() => this.holding === undefined || this.log.state.host !== undefined);
    }
    const { host, attempt } = this.log.state;
    if (host === undefined || host.suspended) return this.learn({ kind: 'stopped', confirmation: 'not_running' });
    const confirmation = await stop({ workflowId: this.workflowId, attempt }, host, this.start.pool, by);
    this.learn({ kind: 'stopped', confirmation });
  }

  private armTimeout(): void {
    const seconds = this.log.state.request.timeoutSeconds;
    if (seconds === undefined) return;
    const left = Date.parse(this.createdAt) + seconds * 1000 - Date.now();
    void sleep(Math.max(1, left), { summary: 'timeout of the execution' }).then(
      () => this.learn({ kind: 'timeout' }),
      () => undefined,
    );
  }

  /** The time of the open action runs from here on, also while nothing is held; an inherited one's is armed again. */
  private armExpiry(): void {
    const open = this.log.state.open?.request;
    if (this.expiring?.actionId === open?.id) return;
    this.expiring?.cancel();
    this.expiring = undefined;
    if (open?.expiresAt === undefined) return;
    const { id: actionId } = open;
    const left = Date.parse(open.expiresAt) - Date.now();
    const summary = `action ${actionId} expires`;
    const { result, cancel } = cancellable(() => sleep(Math.max(1, left), { summary }));
    this.expiring = { actionId, cancel };
    void result.then(
      () => this.learn({ kind: 'expired', actionId }),
      () => undefined,
    );
  }

  /**
   * Whether this run came out of a *Reset* (its own id is not the one that its start was given), once all that was there
   * before is replayed: until then it has to do as the run did that it came from.
   */
  private isReset(): boolean {
    const { runId, originalExecutionRunId, unsafe } = workflowInfo();
    return runId !== originalExecutionRunId && !unsafe.isReplaying;
  }

  /** Such a run ends as Failed wherever it stands: before it acts, hands anything on, or says how it ended. */
  private endIfReset(): void {
    if (this.reset || this.isReset())
      throw ApplicationFailure.nonRetryable('this run came out of a Reset and runs nothing', 'RESET');
  }

  private get createdAt(): string {
    return this.start.createdAt ?? workflowInfo().startTime.toISOString();
  }

  /**
   * Continues as a new run, with the provider living on in its host. Before that a reader's fold of this run is
   * compared with ours: a query (the UI asks by itself) may have run our code outside any task and left its traces. On
   * a difference this task fails, the run is evicted, replays from history, and is right (DESIGN §3, rule 8).
   */
  private async rollOver(): Promise<void> {
    this.rollover = 'checking';
    await Promise.all(this.delivering.values());
    let check = await this.checkFold();
    // An action that ended meanwhile has no time in what was read; once more, and it nearly always has.
    if (Object.keys(this.log.state.actions).some((id) => !Object.hasOwn(check.times.actions, id)))
      check = await this.checkFold();
    this.rollover = 'no';
    // The next run would not know.
    this.endIfReset();
    const { state } = this.log;
    // Temporal's own cancel request does not pass to the next run, so nothing that is ending rolls over.
    if (this.learned.length > 0 || state.ending !== undefined || state.result !== undefined) return;
    // What came while the check was under way is shown now: the next run takes what it inherits for shown.
    this.presence.show(state);
    this.log.close();
    const { memo, start } = nextRun(this.start, this.log, this.createdAt, check.times);
    await makeContinueAsNewFunc<typeof execution>({ memo })(start);
  }

  private async checkFold(): Promise<FoldCheck> {
    this.log.mark({ kind: 'rollover' });
    const { head } = this.log.state;
    const check = await core.foldCheck({ marks: this.log.marks });
    if (check.head !== head)
      throw new Error(`this run's state (${head}) is not the fold of its history (${check.head})`);
    return check;
  }

  /** The closed status tells the truth: Completed, Failed or Canceled. */
  private async finish(): Promise<ExecutionResult> {
    const { result } = this.log.state;
    this.endIfReset();
    await releaseTurn(this.log.state);
    // The end is in the log already. The activity returns at once; if its host died, its heartbeat timeout ends it. Of
    // a host that cannot be reached and yet lives, closing the workflow is what tells it to stop.
    const lost = result !== undefined && 'confirmation' in result && result.confirmation === 'lost';
    const { heartbeatTimeoutMs, leaseMs } = this.start.pool;
    const settled = (): boolean => this.holding === undefined;
    if (lost) await condition(settled, heartbeatTimeoutMs + leaseMs);
    else await condition(settled);
    if (result !== undefined && 'confirmation' in result && !this.cancelRequested) {
      await core.requestCancel();
      await condition(() => this.cancelRequested);
    }
    this.endIfReset();
    this.log.close();
    if (result === undefined || 'finalOutput' in result)
      return { state: 'succeeded', finalOutput: result?.finalOutput ?? '' };
    if ('code' in result) throw ApplicationFailure.nonRetryable(result.message, result.code);
    throw new CancelledFailure(result.reason ?? 'cancelled');
  }
}
