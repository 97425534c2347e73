/**
 * Compares, run by run, the log that readers fold from history with what the workflow's own query answers: byte for
 * byte, but for `time`. An execution that ended by its own code has to be equal; of a terminated or timed-out one the
 * fold without its seal has to be a prefix of the query's answer. What cannot be compared is listed.
 */
import type { Client } from '@temporalio/client';
import type { HoldfastClient } from '../../client/client.js';
import { decoder } from '../../log/decode.js';
import { HistoryReader } from '../../log/history.js';
import { LogReader } from '../../log/reader.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import { canonicalJson, type Json } from '../../protocol/json.js';
import { EVENTS_QUERY, type EventsPage } from '../../workflows/messages.js';

export interface Comparison {
  readonly equal: number;
  readonly runs: number;
  readonly different: readonly string[];
  /** Marks whose head was another than the reader's. */
  readonly divergences: number;
  readonly notCompared: readonly { readonly id: string; readonly why: string }[];
}

export async function compareLogs(
  client: HoldfastClient,
  temporal: Client,
  executionIds: readonly string[],
): Promise<Comparison> {
  const codecs = temporal.options.loadedDataConverter.payloadCodecs;
  const reader = new LogReader(new HistoryReader(temporal, temporal.options.namespace, decoder(codecs)));
  let equal = 0;
  let runs = 0;
  let divergences = 0;
  const different: string[] = [];
  const notCompared: { id: string; why: string }[] = [];
  for (const id of executionIds) {
    const workflowId = `${client.tenant}.${id}`;
    let chain: string[];
    try {
      const current = await reader.foldRun(workflowId);
      chain = [...current.fold.segments.map((segment) => segment.runId), current.runId];
    } catch (error) {
      notCompared.push({ id, why: String(error) });
      continue;
    }
    let same = true;
    for (const runId of chain) {
      const handle = temporal.workflow.getHandle(workflowId, runId);
      const { status, historyLength } = await handle.describe();
      if (status.name === 'RUNNING') {
        notCompared.push({ id, why: 'still running' });
        same = false;
        break;
      }
      const { events, fold } = await reader.foldRun(workflowId, runId);
      if (historyLength <= 3) {
        notCompared.push({ id, why: 'its run never had a workflow task' });
        same = false;
        break;
      }
      runs += 1;
      divergences += fold.divergences;
      const own =
        status.name === 'COMPLETED' ||
        status.name === 'FAILED' ||
        status.name === 'CANCELLED' ||
        status.name === 'CONTINUED_AS_NEW';
      const queried = await queryAll(temporal, workflowId, runId);
      const left = text(own ? events : events.slice(0, -1));
      const right = text(queried);
      const agrees = own ? left.join('\n') === right.join('\n') : left.every((line, i) => line === right[i]);
      if (agrees) continue;
      same = false;
      const at = left.findIndex((line, i) => line !== right[i]);
      different.push(`${id} run ${runId} (${status.name}): ${left.length} folded, ${right.length} queried; at ${at}:
  fold  ${left[at] ?? '-'}
  query ${right[at] ?? '-'}`);
    }
    if (same) equal += 1;
  }
  return { equal, runs, different, divergences, notCompared };
}

async function queryAll(temporal: Client, workflowId: string, runId: string): Promise<HoldfastEvent[]> {
  const events: HoldfastEvent[] = [];
  const handle = temporal.workflow.getHandle(workflowId, runId);
  for (let after = 0; ; ) {
    const page: EventsPage = await handle.query(EVENTS_QUERY, after, 1000);
    events.push(...page.events);
    if (page.next === undefined) return events;
    after = page.next;
  }
}

function text(events: readonly HoldfastEvent[]): string[] {
  return events.map((event) => canonicalJson({ ...event, time: '' } as unknown as Json));
}
