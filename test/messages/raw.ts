/** Messages as anyone with access to the server can send them: any name, any payload, no SDK in between. */
import type { Client } from '@temporalio/client';
import type { temporal } from '@temporalio/proto';

export type RawPayload = temporal.api.common.v1.IPayload;

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

export function payload(encoding: string | undefined, data: string | undefined, more: object = {}): RawPayload {
  return {
    metadata: { ...(encoding === undefined ? {} : { encoding: bytes(encoding) }), ...more },
    ...(data === undefined ? {} : { data: bytes(data) }),
  };
}

export function json(value: unknown): RawPayload {
  return payload('json/plain', JSON.stringify(value));
}

/** What a worker cannot make a message of. */
export const UNDECODABLE_PAYLOADS: Readonly<Record<string, RawPayload>> = {
  'an encoding that nobody knows': payload('binary/encrypted', 'x'),
  'no encoding': payload(undefined, '{"approved":true}'),
  'JSON that is none': payload('json/plain', '{"approved": tru'),
  'no data': payload('json/plain', undefined),
  'text that is not UTF-8': { metadata: { encoding: bytes('json/plain') }, data: new Uint8Array([0xff, 0xfe, 0x22]) },
  bytes: payload('binary/plain', '\u0000\u0001'),
  'protobuf as JSON': payload('json/protobuf', '{"a":1}', { messageType: bytes('no.such.Message') }),
  protobuf: payload('binary/protobuf', 'garbage', { messageType: bytes('no.such.Message') }),
};

export class Raw {
  constructor(private readonly client: Client) {}

  async signal(workflowId: string, signalName: string, payloads?: RawPayload[]): Promise<void> {
    await this.client.workflowService.signalWorkflowExecution({
      namespace: this.client.options.namespace,
      workflowExecution: { workflowId },
      signalName,
      ...(payloads === undefined ? {} : { input: { payloads } }),
    });
  }

  /** Resolves with the failure of a refused update, or with nothing. */
  async update(workflowId: string, name: string, payloads: RawPayload[]): Promise<string | undefined> {
    const { outcome } = await this.client.withDeadline(Date.now() + 10_000, () =>
      this.client.workflowService.updateWorkflowExecution({
        namespace: this.client.options.namespace,
        workflowExecution: { workflowId },
        waitPolicy: { lifecycleStage: COMPLETED },
        request: {
          meta: { updateId: `${name}-${Math.random()}`, identity: 'test' },
          input: { name, args: { payloads } },
        },
      }),
    );
    return outcome?.failure?.message ?? undefined;
  }

  async query(workflowId: string, queryType: string, payloads: RawPayload[] = []): Promise<RawPayload | undefined> {
    const { queryResult } = await this.client.withDeadline(Date.now() + 10_000, () =>
      this.client.workflowService.queryWorkflow({
        namespace: this.client.options.namespace,
        execution: { workflowId },
        query: { queryType, queryArgs: { payloads } },
      }),
    );
    return queryResult?.payloads?.[0];
  }
}

/** `UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_COMPLETED` of Temporal's API. */
const COMPLETED = 3;
