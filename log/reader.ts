/**
 * Reading an execution's log from history: the current run, and the closed runs before it that its carry names. Needs
 * no worker.
 */

import { HoldfastError } from '../protocol/errors.js';
import type { HoldfastEvent } from '../protocol/event.js';
import type { Json } from '../protocol/json.js';
import { WORKFLOW_TYPES } from '../workflows/messages.js';
import { undecodable } from './decode.js';
import { RunFold } from './fold.js';
import { GRPC, grpcCode } from './grpc.js';
import type { HistoryItem, HistoryReader } from './history.js';

/** One run, wholly folded as of now. */
export interface FoldedRun {
  readonly runId: string;
  readonly fold: RunFold;
  readonly events: readonly HoldfastEvent[];
  /** The run that it was continued as, if it was. */
  readonly next?: string;
}

export class LogReader {
  constructor(readonly history: HistoryReader) {}

  /**
   * Folds one run as it stands. Without `runId`: the current one, going on with its successor when it rolls over
   * meanwhile, and with the run that was reset when it came out of a *Reset*.
   */
  async foldRun(workflowId: string, runId?: string, signal?: AbortSignal): Promise<FoldedRun> {
    for (let current = runId; ; ) {
      const result = await this.foldOnce(workflowId, current, signal);
      if ('redirect' in result) current = result.redirect;
      else if (runId === undefined && result.next !== undefined) current = result.next;
      else return result;
    }
  }

  private async foldOnce(
    workflowId: string,
    runId: string | undefined,
    signal: AbortSignal | undefined,
  ): Promise<FoldedRun | { redirect: string }> {
    const events: HoldfastEvent[] = [];
    let fold: RunFold | undefined;
    let own = runId ?? '';
    let next: string | undefined;
    for (let token: Uint8Array | undefined; ; ) {
      const page = await this.history.page({
        workflowId,
        ...(runId === undefined ? {} : { runId }),
        ...(token === undefined ? {} : { token }),
        ...(signal === undefined ? {} : { signal }),
      });
      for (const item of page.items) {
        if (item.kind === 'reset') return { redirect: item.runId };
        if (item.kind === 'start') {
          fold = startFold(item);
          if (runId === undefined) own = item.originalRunId;
          events.push(...fold.begin().events);
        } else if (item.kind === 'continued') next = item.runId;
        else if (fold !== undefined) events.push(...fold.apply(item).events);
      }
      if (page.token.length === 0) break;
      token = page.token;
    }
    if (fold === undefined) throw new HoldfastError('INTERNAL_ERROR', `the history of ${workflowId} has no start`);
    return { runId: own, fold, events, ...(next === undefined ? {} : { next }) };
  }

  /**
   * All events after `after` as of now, run by run, oldest first. Throws `EVENTS_EXPIRED` with the oldest sequence that
   * is left when retention took some of them: never a silent gap.
   */
  async *read(workflowId: string, after: number, signal?: AbortSignal): AsyncGenerator<readonly HoldfastEvent[]> {
    const current = await this.foldRun(workflowId, undefined, signal);
    for (const segment of current.fold.segments) {
      if (segment.last <= after) continue;
      const run = await this.foldSegment(workflowId, segment.runId, current, signal);
      yield run.events.filter((event) => event.sequence > after);
    }
    yield current.events.filter((event) => event.sequence > after);
  }

  /** The whole journal: from the carry when it travels, else from every run that holds some of it. */
  async journal(workflowId: string, current: FoldedRun): Promise<readonly Json[]> {
    const { state } = current.fold;
    if (state.journal.entries !== undefined) return state.journal.entries;
    const entries: Json[] = [];
    for (const segment of current.fold.segments) {
      if (segment.entries === 0) continue;
      const run = await this.foldSegment(workflowId, segment.runId, current);
      entries.push(...run.fold.entries);
    }
    return [...entries, ...current.fold.entries];
  }

  private async foldSegment(
    workflowId: string,
    runId: string,
    current: FoldedRun,
    signal?: AbortSignal,
  ): Promise<FoldedRun> {
    try {
      return await this.foldRun(workflowId, runId, signal);
    } catch (error) {
      if (grpcCode(error) !== GRPC.NOT_FOUND) throw error;
      const oldestSequence = await this.oldest(workflowId, current);
      throw new HoldfastError(
        'EVENTS_EXPIRED',
        `events before sequence ${oldestSequence} are past retention; read on after ${oldestSequence - 1}`,
        { details: { oldestSequence }, cause: error },
      );
    }
  }

  /** The first sequence whose run, and all runs after it, are still there. */
  private async oldest(workflowId: string, current: FoldedRun): Promise<number> {
    let oldest = current.fold.from + 1;
    for (const segment of [...current.fold.segments].reverse()) {
      try {
        await this.history.page({ workflowId, runId: segment.runId });
      } catch (error) {
        if (grpcCode(error) === GRPC.NOT_FOUND) return oldest;
        throw error;
      }
      oldest = segment.first;
    }
    return oldest;
  }
}

/** Begins a fold, or says why this workflow is none of ours. */
export function startFold(item: Extract<HistoryItem, { kind: 'start' }>): RunFold {
  // An id of something else of ours (a conversation) names no execution.
  if (item.workflowType !== WORKFLOW_TYPES.execution) throw new HoldfastError('NOT_FOUND', 'this is no execution');
  if (typeof item.start !== 'object' || item.start === null || item.start.identity === undefined)
    throw undecodable('the start of this execution');
  return new RunFold(item);
}
