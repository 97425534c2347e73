/**
 * One run's history as the inputs of its log. The reader delivers an input when it sees it and looks at nothing else:
 * workflow-task events of a live history vanish again and their ids are reused (DESIGN §3, rule 6).
 */
import type { Client } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import type { temporal } from '@temporalio/proto';
import type { LogInput, StoredMark } from '../protocol/log/inputs.js';
import type { Closing } from '../protocol/log/seal.js';
import type { ExecutionStart } from '../workflows/messages.js';
import type { Decode } from './decode.js';

type HistoryEvent = temporal.api.history.v1.IHistoryEvent;

/** What of a history matters to the log. `time` is the server's, in milliseconds since 1970. */
export type HistoryItem =
  | {
      readonly kind: 'start';
      readonly time: number;
      readonly workflowType: string;
      readonly start: ExecutionStart;
      readonly originalRunId: string;
    }
  | { readonly kind: 'input'; readonly time: number; readonly input: LogInput; readonly seen?: StoredMark }
  | { readonly kind: 'close'; readonly time: number; readonly closing: Closing }
  | { readonly kind: 'continued'; readonly time: number; readonly runId: string }
  /** This run came out of a *Reset* of `runId`, which stands as it ended. */
  | { readonly kind: 'reset'; readonly time: number; readonly runId: string };

export interface HistoryPage {
  readonly items: readonly HistoryItem[];
  /** Empty when the run is closed and wholly read. */
  readonly token: Uint8Array;
}

export interface PageRequest {
  readonly workflowId: string;
  /** Without one: the current run. */
  readonly runId?: string;
  readonly token?: Uint8Array;
  /** Wait for a new event when there is none (a long poll of up to 20 s). */
  readonly wait?: boolean;
  readonly signal?: AbortSignal;
}

const CALL_DEADLINE_MS = 10_000;
const LONG_POLL_DEADLINE_MS = 60_000;

/** Reads pages of history. Errors are the connection's own; callers translate them. */
export class HistoryReader {
  constructor(
    private readonly client: Pick<Client, 'connection' | 'workflowService'>,
    private readonly namespace: string,
    private readonly decode: Decode,
  ) {}

  async page(request: PageRequest): Promise<HistoryPage> {
    const { workflowId, runId, token, wait = false, signal } = request;
    const call = () =>
      this.client.workflowService.getWorkflowExecutionHistory({
        namespace: this.namespace,
        execution: { workflowId, ...(runId === undefined ? {} : { runId }) },
        waitNewEvent: wait,
        ...(token === undefined ? {} : { nextPageToken: token }),
      });
    const deadline = Date.now() + (wait ? LONG_POLL_DEADLINE_MS : CALL_DEADLINE_MS);
    const bounded = () => this.client.connection.withDeadline(deadline, call);
    const response = await (signal === undefined ? bounded() : this.abortable(signal, bounded));
    const events = response.history?.events ?? [];
    const items: HistoryItem[] = [];
    const decode = (payloads: readonly Payload[] | null | undefined) =>
      this.decode(payloads, { type: 'workflow', namespace: this.namespace, workflowId });
    for (const event of events) {
      const item = await itemOf(event, decode);
      if (item !== undefined) items.push(item);
    }
    return { items, token: response.nextPageToken ?? new Uint8Array() };
  }

  /** The SDK never takes its listener off the signal again, so each call gets one of its own. */
  private async abortable<T>(signal: AbortSignal, call: () => Promise<T>): Promise<T> {
    const own = new AbortController();
    const abort = (): void => own.abort(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    try {
      return await this.client.connection.withAbortSignal(own.signal, call);
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }
}

async function itemOf(
  event: HistoryEvent,
  decode: (payloads: readonly Payload[] | null | undefined) => Promise<unknown[]>,
): Promise<HistoryItem | undefined> {
  const time = Number(event.eventTime?.seconds ?? 0) * 1000 + Math.floor((event.eventTime?.nanos ?? 0) / 1e6);
  if (event.workflowExecutionSignaledEventAttributes) {
    const { signalName, input } = event.workflowExecutionSignaledEventAttributes;
    const args = await decode(input?.payloads);
    return { kind: 'input', time, input: { kind: 'signal', name: signalName ?? '', args } };
  }
  if (event.workflowPropertiesModifiedEventAttributes) {
    const payload = event.workflowPropertiesModifiedEventAttributes.upsertedMemo?.fields?.mark;
    if (!payload) return undefined;
    const [seen] = (await decode([payload])) as StoredMark[];
    if (typeof seen !== 'object' || seen === null) return undefined;
    return { kind: 'input', time, input: { kind: 'mark', mark: seen.mark }, seen };
  }
  if (event.workflowExecutionStartedEventAttributes) {
    const { input, originalExecutionRunId, workflowType } = event.workflowExecutionStartedEventAttributes;
    const [start] = await decode(input?.payloads);
    return {
      kind: 'start',
      time,
      workflowType: workflowType?.name ?? '',
      start: start as ExecutionStart,
      originalRunId: originalExecutionRunId ?? '',
    };
  }
  const resetOf = event.workflowTaskFailedEventAttributes;
  if (resetOf?.baseRunId && resetOf.newRunId) return { kind: 'reset', time, runId: resetOf.baseRunId };
  if (event.workflowExecutionContinuedAsNewEventAttributes)
    return {
      kind: 'continued',
      time,
      runId: event.workflowExecutionContinuedAsNewEventAttributes.newExecutionRunId ?? '',
    };
  const closing = closingOf(event);
  return closing === undefined ? undefined : { kind: 'close', time, closing };
}

function closingOf(event: HistoryEvent): Closing | undefined {
  if (event.workflowExecutionCompletedEventAttributes) return 'completed';
  if (event.workflowExecutionFailedEventAttributes) return 'failed';
  if (event.workflowExecutionCanceledEventAttributes) return 'canceled';
  if (event.workflowExecutionTerminatedEventAttributes) return 'terminated';
  if (event.workflowExecutionTimedOutEventAttributes) return 'timed_out';
  return undefined;
}
