/** What the server says of one workflow, with the memo keys that are wanted: one call, no worker. */
import type { Client } from '@temporalio/client';
import type { Decode } from '../log/decode.js';
import { undecodable } from '../log/decode.js';
import { UNDECODABLE } from '../protocol/log/inputs.js';

export interface Described {
  /** The workflow's type. */
  readonly type: string;
  readonly isRunning: boolean;
  /** ISO 8601. */
  readonly startTime: string;
  /** The wanted keys that are there. */
  readonly memo: Readonly<Record<string, unknown>>;
}

/** `WORKFLOW_EXECUTION_STATUS_RUNNING` of Temporal's API. */
const RUNNING = 1;

/**
 * Describes a workflow. Errors are the connection's own, but for a wanted key that cannot be decoded here (no codec, or
 * another key): that is a HoldfastError which says so.
 */
export async function describe(
  client: Client,
  decode: Decode,
  workflowId: string,
  wanted: readonly string[],
): Promise<Described> {
  const { namespace } = client.options;
  const { workflowExecutionInfo: info } = await client.workflowService.describeWorkflowExecution({
    namespace,
    execution: { workflowId },
  });
  const fields = info?.memo?.fields ?? {};
  const memo: Record<string, unknown> = {};
  for (const key of wanted) {
    const payload = Object.hasOwn(fields, key) ? fields[key] : undefined;
    if (payload === undefined) continue;
    const [value] = await decode([payload], { type: 'workflow', namespace, workflowId });
    if (value === UNDECODABLE) throw undecodable(`the memo of ${workflowId}`);
    memo[key] = value;
  }
  return {
    type: info?.type?.name ?? '',
    isRunning: info?.status === RUNNING,
    startTime: isoTime(info?.startTime) ?? new Date(0).toISOString(),
    memo,
  };
}

/** Whether a workflow runs. Errors are the connection's own: NOT_FOUND for one that the server does not know. */
export async function isRunning(client: Client, workflowId: string): Promise<boolean> {
  const { workflowExecutionInfo: info } = await client.workflowService.describeWorkflowExecution({
    namespace: client.options.namespace,
    execution: { workflowId },
  });
  return info?.status === RUNNING;
}

/** A protobuf timestamp as ISO 8601. */
export function isoTime(
  time: { seconds?: { toString(): string } | null; nanos?: number | null } | null | undefined,
): string | undefined {
  if (!time) return undefined;
  return new Date(Number(time.seconds ?? 0) * 1000 + Math.floor((time.nanos ?? 0) / 1e6)).toISOString();
}
