/**
 * One provider, live in this process. It does not live in an activity: an activity only watches it, so it survives
 * rollovers, and a server that was away (DESIGN §3, A live provider).
 */
import { setTimeout as delay } from 'node:timers/promises';
import { HoldfastError, isExecutionErrorCode } from '../protocol/errors.js';
import type { Confirmation } from '../protocol/event.js';
import { usageSchema } from '../protocol/execution.js';
import { clip, tailWithin } from '../protocol/json.js';
import { MAX_MESSAGE_LENGTH, MAX_TEXT_BYTES } from '../protocol/limits.js';
import type { BatchItem } from '../protocol/log/inputs.js';
import { capabilityLevel } from '../protocol/manifest.js';
import { HandedOver, type RunContext, type RunResult } from '../providers/provider.js';
import type { HostOutcome } from '../workflows/messages.js';
import { faultPoint } from './fault-points.js';
import type { Launch } from './launch.js';
import { ProviderContext } from './run-context.js';
import type { ServerCalls } from './server-calls.js';
import { EventSink } from './sink.js';

export interface LiveRunOptions {
  readonly workflowId: string;
  readonly launch: Launch;
  readonly calls: ServerCalls;
  /** The most that one run takes of this provider before it has rolled over. */
  readonly perRun: { readonly batches: number; readonly bytes: number };
  readonly log: RunContext['log'];
}

type Phase = 'announced' | 'running' | 'settled';

export class LiveRun {
  readonly token: string;
  readonly workflowId: string;
  readonly attempt: number;
  readonly journaled: boolean;
  readonly sink: EventSink;
  /** How this attempt ended; kept for whoever comes to watch later. */
  readonly outcome: Promise<HostOutcome>;
  /** The run that last watched it, and when the server last acknowledged that (milliseconds). */
  runId = '';
  lastAcknowledged = Date.now();
  /** Activities that speak for it. */
  watchers = 0;
  /** Its run is rolling over: no activity speaks for it until the next one. */
  handedOver = false;
  /** The workflow wants to roll over, whatever was counted here. */
  rolloverAsked = false;
  phase: Phase = 'announced';

  get watched(): boolean {
    return this.watchers > 0;
  }

  private readonly abort = new AbortController();
  private readonly context: ProviderContext;
  private settle: (outcome: HostOutcome) => void = () => undefined;
  private stopped: Promise<Confirmation> | undefined;
  private provider: Promise<RunResult | undefined> | undefined;
  private called = false;
  private readonly rolloverWaiters = new Set<() => void>();

  constructor(private readonly options: LiveRunOptions) {
    const { launch, workflowId, calls, log } = options;
    this.token = launch.announcement.token;
    this.workflowId = workflowId;
    this.attempt = launch.announcement.attempt;
    this.journaled = launch.recovery === 'journal';
    this.outcome = new Promise((resolve) => {
      this.settle = (outcome) => {
        this.phase = 'settled';
        resolve(outcome);
      };
    });
    this.sink = new EventSink({
      perRun: options.perRun,
      send: async (batch, items) => {
        await faultPoint('batch.sending', workflowId);
        await calls.signal(workflowId, 'append', { token: this.token, batch, items }, this.abort.signal);
        await faultPoint('batch.sent', workflowId);
        for (const waiter of this.rolloverWaiters) waiter();
      },
      failed: (error) => {
        if (this.abort.signal.aborted) return;
        log('warn', 'a batch was refused for good; the provider is stopped', { error: String(error) });
        void this.giveUp('its log takes no more', { graceMs: 5_000, isOver: true });
      },
    });
    this.context = new ProviderContext({
      state: launch.state,
      config: launch.config,
      recovery: launch.recovery,
      continuity: capabilityLevel(launch.provider.manifest, 'conversation.continuity'),
      ...(launch.resume === undefined ? {} : { resume: launch.resume }),
      sink: this.sink,
      signal: this.abort.signal,
      log,
    });
  }

  /**
   * Calls the provider, once the log says so: if this process died in between the other way round, the log would not
   * know of native work that was begun, and the next attempt would begin it again. When that took longer than `freshMs`
   * (the server was away, or this process was frozen) another host may have been given the attempt's work meanwhile:
   * then `isCurrent` says what the log knows.
   */
  start(freshMs: number, isCurrent: () => Promise<boolean>): void {
    if (this.stopped !== undefined) return;
    this.phase = 'running';
    this.provider = this.callProvider(freshMs, isCurrent);
  }

  /** Resolves when the provider's code has really returned, also long after it was given up; undefined before `start`. */
  get returned(): Promise<unknown> | undefined {
    return this.provider;
  }

  private async callProvider(freshMs: number, isCurrent: () => Promise<boolean>): Promise<RunResult | undefined> {
    const { took } = this.options.launch;
    void this.sink.push({ kind: 'started', ...(took === undefined ? {} : { took }) });
    await this.sink.flush();
    if (Date.now() - this.lastAcknowledged > freshMs && !(await isCurrent()))
      void this.giveUp('another attempt took over before it had started', { graceMs: 0 });
    if (this.abort.signal.aborted) return undefined;
    this.called = true;
    try {
      const result = (await this.options.launch.provider.run(this.context)) ?? {};
      await this.end(result);
      return result;
    } catch (error) {
      if (!this.abort.signal.aborted) await this.fail(error);
      else this.options.log('debug', 'the provider rejected after it was stopped', { error: String(error) });
      return undefined;
    }
  }

  private async end(result: RunResult): Promise<void> {
    if (this.abort.signal.aborted) return;
    if (result.suspended === true) return this.settle({ kind: 'logged' });
    await this.context.flushText();
    const given = result.finalOutput;
    const finalOutput = given === undefined ? undefined : tailWithin(String(given), MAX_TEXT_BYTES);
    const usage = usageSchema.safeParse(result.usage);
    await this.finish({
      kind: 'completed',
      ...(finalOutput === undefined ? {} : { finalOutput }),
      ...(finalOutput !== undefined && finalOutput.length < String(given).length ? { truncated: true } : {}),
      ...(usage.success ? { usage: usage.data } : {}),
    });
  }

  private async fail(error: unknown): Promise<void> {
    const known = error instanceof HoldfastError && isExecutionErrorCode(error.code);
    const code = known ? error.code : 'PROVIDER_ERROR';
    const message = error instanceof Error ? error.message : String(error);
    await this.context.flushText();
    await this.finish({ kind: 'failed', code, message: clip(message || 'no message', MAX_MESSAGE_LENGTH) });
  }

  private async finish(item: BatchItem): Promise<void> {
    void this.sink.push(item);
    await this.sink.flush();
    if (this.stopped === undefined) this.settle({ kind: 'logged' });
  }

  /** An answer from the workflow. */
  answer(actionId: string, response: Parameters<ProviderContext['answer']>[1]): void {
    this.context.answer(actionId, response);
  }

  /** Resolves when the counts (or the workflow) ask for a rollover; never when `signal` aborts first. */
  rolloverDue(threshold: { readonly batches: number; readonly bytes: number }, signal: AbortSignal): Promise<void> {
    const due = (): boolean =>
      this.rolloverAsked || this.sink.batches >= threshold.batches || this.sink.bytes >= threshold.bytes;
    return new Promise((resolve) => {
      const check = (): void => {
        if (!due() || this.phase !== 'running') return;
        this.rolloverWaiters.delete(check);
        resolve();
      };
      this.rolloverWaiters.add(check);
      signal.addEventListener('abort', () => this.rolloverWaiters.delete(check), { once: true });
      check();
    });
  }

  resetCounts(): void {
    this.rolloverAsked = false;
    this.sink.resetCounts();
  }

  askRollover(): void {
    this.rolloverAsked = true;
    for (const waiter of this.rolloverWaiters) waiter();
  }

  /**
   * Stops the provider because the execution ends. Called any number of times, does it once (invariant 8): aborts its
   * signal, calls its own cleanup, and waits `graceMs` for it to settle.
   */
  stop(reason: string, graceMs: number): Promise<Confirmation> {
    this.stopped ??= this.stopOnce(ended(reason), graceMs).then((confirmation) => {
      this.settle({ kind: 'stopped', confirmation });
      return confirmation;
    });
    return this.stopped;
  }

  /**
   * Stops the provider because this host has to let go of it; unless it `isOver`, the execution may go on elsewhere.
   * `orderly`: nothing is wrong with the execution, so this does not count against its recoveries.
   */
  giveUp(why: string, how: { graceMs: number; orderly?: boolean; isOver?: boolean }): Promise<Confirmation> {
    const { graceMs, orderly = false, isOver = false } = how;
    const reason = isOver || !this.journaled ? ended(why) : new HandedOver(why);
    this.stopped ??= this.stopOnce(reason, graceMs).then((confirmation) => {
      const message = `the provider was stopped by its host: ${why}`;
      this.settle({ kind: 'settled', result: { how: 'lost', message, orderly } });
      return confirmation;
    });
    return this.stopped;
  }

  private async stopOnce(reason: DOMException, graceMs: number): Promise<Confirmation> {
    const before = this.phase;
    this.abort.abort(reason);
    this.sink.close();
    if (!this.called) return 'not_running';
    if (before === 'settled') return 'cooperative';
    const cleanup = this.cleanUp();
    const grace = new AbortController();
    const late = delay(graceMs, 'late' as const, { signal: grace.signal }).catch(() => 'late' as const);
    const settled = Promise.all([this.provider, cleanup]).then(([result]) => result);
    const result = await Promise.race([settled, late]);
    grace.abort();
    if (result === 'late') {
      this.options.log('warn', 'the provider ignored its abort and is fenced off', { graceMs });
      return 'abandoned';
    }
    return result?.forced === true ? 'forced' : 'cooperative';
  }

  private async cleanUp(): Promise<void> {
    try {
      await this.options.launch.provider.cancel?.(this.context);
    } catch (error) {
      this.options.log('warn', "the provider's cleanup failed", { error: String(error) });
    }
  }
}

function ended(why: string): DOMException {
  return new DOMException(why, 'AbortError');
}
