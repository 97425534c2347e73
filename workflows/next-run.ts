/** What a run hands to the one that continues it: the state, the list of the runs before, and the memo as it then is. */
import { workflowInfo } from '@temporalio/workflow';
import type { ExecutionLog } from './execution-log.js';
import { type ExecutionMemo, type ExecutionStart, type LogTimes, MEMO, type Segment } from './messages.js';
import { actionMemo } from './presence.js';

export interface NextRun {
  readonly start: ExecutionStart;
  readonly memo: Record<string, unknown>;
}

export function nextRun(start: ExecutionStart, log: ExecutionLog, createdAt: string, times: LogTimes): NextRun {
  const { version, identity, taskQueue, pool, carry } = start;
  const { state } = log;
  const segment: Segment = { runId: log.runId, first: log.first, last: state.sequence, entries: log.entries };
  const segments = [...(carry?.segments ?? []), segment];
  const known = workflowInfo().memo?.[MEMO.execution] as ExecutionMemo | undefined;
  const memo = {
    ...workflowInfo().memo,
    // A list knows only when this run began, so it is told when the first one did.
    [MEMO.execution]: known === undefined ? undefined : { ...known, createdAt },
    [MEMO.mark]: undefined,
    [MEMO.action]: actionMemo(state),
  };
  return {
    start: { version, identity, taskQueue, pool, createdAt, carry: { state, segments, times } },
    memo: withoutUndefined(memo),
  };
}

function withoutUndefined(record: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined));
}
