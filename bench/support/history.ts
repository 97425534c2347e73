/** Histories as the server keeps them: how many events an execution costs, and of which kind. */
import type { Client } from '@temporalio/client';
import proto, { type temporal } from '@temporalio/proto';

export type HistoryEvent = temporal.api.history.v1.IHistoryEvent;

/** All events of a workflow, its earlier runs (continued as new) included, oldest first. */
export async function wholeHistory(client: Client, workflowId: string): Promise<HistoryEvent[]> {
  const events: HistoryEvent[] = [];
  const { raw } = await client.workflow.getHandle(workflowId).describe();
  let runId: string | undefined = raw.workflowExecutionInfo?.firstRunId || undefined;
  for (let first = true; first || runId !== undefined; first = false) {
    const history: temporal.api.history.v1.IHistory = await client.workflow.getHandle(workflowId, runId).fetchHistory();
    const run = history.events ?? [];
    events.push(...run);
    runId = run.at(-1)?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? undefined;
  }
  return events;
}

/** How many of each type, by the type's name without its prefix. */
export function countTypes(events: readonly HistoryEvent[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { eventType } of events) {
    const name = proto.temporal.api.enums.v1.EventType[eventType ?? 0]?.replace('EVENT_TYPE_', '') ?? 'UNKNOWN';
    counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}
