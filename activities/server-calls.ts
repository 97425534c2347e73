/**
 * The host's own calls to the server: signals that are repeated until the server has them, heartbeats whose answer
 * counts, and whether an execution still runs.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { GRPC, grpcCode } from '../log/grpc.js';

const SIGNAL_DEADLINE_MS = 5_000;
const RETRY_MIN_MS = 50;
const RETRY_MAX_MS = 1_000;

/** What each heartbeat carries: it shows that a host had the activity (see `AttemptOutcome` in workflows/attempt.ts). */
export const ALIVE = 'alive';
const ALIVE_PAYLOAD: Payload = defaultPayloadConverter.toPayload(ALIVE);

/** What passes by itself: the same call again, under back-pressure, for as long as the host keeps the provider. */
export function passes(error: unknown): boolean {
  const code = grpcCode(error);
  return (
    code !== GRPC.NOT_FOUND && code !== GRPC.INVALID_ARGUMENT && code !== GRPC.PERMISSION_DENIED && code !== undefined
  );
}

/** `running`: that very run; `continued`: a later one of the same execution. */
export type RunStatus = 'running' | 'continued' | 'closed' | 'unknown';

export type Beat = 'ok' | 'cancel' | 'gone' | 'unreachable';

export class ServerCalls {
  constructor(readonly client: Client) {}

  /** Signals until the server has it or `signal` aborts. Rejects when it never will: closed, or refused. */
  async signal(workflowId: string, name: string, argument: unknown, signal: AbortSignal): Promise<void> {
    const handle = this.client.workflow.getHandle(workflowId);
    for (let tries = 0; ; tries++) {
      try {
        const deadline = Date.now() + SIGNAL_DEADLINE_MS;
        return await this.client.withDeadline(deadline, () => handle.signal(name, argument));
      } catch (error) {
        if (signal.aborted || !passes(error)) throw error;
        const wait = Math.min(RETRY_MAX_MS, RETRY_MIN_MS * 2 ** Math.min(tries, 5));
        await delay(wait, undefined, { signal }).catch(() => undefined);
        if (signal.aborted) throw error;
      }
    }
  }

  /**
   * One heartbeat of an activity by its task token. The SDK's own are throttled and say nothing about the answer.
   * `gone`: the server no longer knows this activity (timed out, completed, or its workflow closed).
   */
  async beat(taskToken: Uint8Array, deadlineMs: number): Promise<Beat> {
    try {
      const answer = await this.client.withDeadline(Date.now() + deadlineMs, () =>
        this.client.workflowService.recordActivityTaskHeartbeat({
          namespace: this.client.options.namespace,
          taskToken,
          details: { payloads: [ALIVE_PAYLOAD] },
          identity: this.client.options.identity,
        }),
      );
      return answer.cancelRequested ? 'cancel' : 'ok';
    } catch (error) {
      return grpcCode(error) === GRPC.NOT_FOUND ? 'gone' : 'unreachable';
    }
  }

  /**
   * Whether the execution that run `runId` belongs to still goes on; `unknown` when the server does not say within
   * `withinMs`.
   */
  async status(workflowId: string, runId: string, withinMs: number): Promise<RunStatus> {
    const describe = (run?: string) => this.client.workflow.getHandle(workflowId, run).describe();
    try {
      return await this.client.withDeadline(Date.now() + withinMs, async () => {
        const own = await describe(runId);
        if (own.status.name === 'RUNNING') return 'running';
        if (own.status.name !== 'CONTINUED_AS_NEW') return 'closed';
        return (await describe()).status.name === 'RUNNING' ? 'continued' : 'closed';
      });
    } catch (error) {
      return grpcCode(error) === GRPC.NOT_FOUND ? 'closed' : 'unknown';
    }
  }
}
