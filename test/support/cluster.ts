/**
 * A real server, with workers and a client, for one test file. Every execution that it started is compared at the end:
 * the log as readers fold it from history, and as the workflow's own query gives it (DESIGN §3, rule 8).
 */
import assert from 'node:assert/strict';
import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { HoldfastClient } from '../../client/client.js';
import type { ClientOptions } from '../../client/options.js';
import type { StartedExecution } from '../../client/starting.js';
import { type DevServer, startDevServer } from '../../dev/server.js';
import { connect } from '../../log/connect.js';
import { decoder } from '../../log/decode.js';
import { HistoryReader } from '../../log/history.js';
import { LogReader } from '../../log/reader.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import type { StartExecutionRequest } from '../../protocol/execution.js';
import type { LogState } from '../../protocol/log/state.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import type { HoldfastWorkerOptions } from '../../worker/options.js';
import { createWorker, type HoldfastWorker } from '../../worker/worker.js';
import { type Comparison, compareLogs } from './compare-logs.js';

/** Quick suspicion, so that a killed worker is noticed within seconds. */
export const QUICK_POOL = { heartbeatTimeoutMs: 2_000, leaseMs: 2_000, stopGraceMs: 2_000 };

/** No suspicion on a busy machine: for tests in which no worker dies. */
export const PATIENT_POOL = { heartbeatTimeoutMs: 20_000, leaseMs: 15_000, stopGraceMs: 5_000 };

/** Else a deletion waits for the server's queues, up to 30 s. */
const DELETE_AT_ONCE = {
  'history.transferProcessorEnsureCloseBeforeDelete': false,
  'history.visibilityProcessorEnsureCloseBeforeDelete': false,
};

export interface ClusterOptions {
  readonly dbFile?: string;
  /** Settings of the server; they win over those that the development server makes. */
  readonly dynamicConfig?: Readonly<Record<string, string | number | boolean>>;
  readonly dataConverter?: DataConverter;
}

export class Cluster {
  readonly started: string[] = [];
  private readonly workers: HoldfastWorker[] = [];
  private readonly clients: HoldfastClient[] = [];

  private constructor(
    readonly server: DevServer,
    readonly temporal: Client,
    readonly client: HoldfastClient,
    private readonly options: ClusterOptions,
  ) {}

  static async start(options: ClusterOptions = {}): Promise<Cluster> {
    const server = await startDevServer({
      ui: false,
      dynamicConfig: { ...DELETE_AT_ONCE, ...options.dynamicConfig },
      ...(options.dbFile ? { dbFile: options.dbFile } : {}),
    });
    const connection = await connect({ address: server.address });
    const { dataConverter } = options;
    const converter = dataConverter === undefined ? {} : { dataConverter };
    const temporal = new Client({ connection, namespace: server.namespace, ...converter });
    const client = await HoldfastClient.connect({ address: server.address, ...converter });
    return new Cluster(server, temporal, client, options);
  }

  async worker(options: Partial<HoldfastWorkerOptions> = {}): Promise<HoldfastWorker> {
    const worker = await createWorker({
      address: this.server.address,
      providers: [scriptedProvider()],
      pool: QUICK_POOL,
      handleSignals: false,
      drainMs: 0,
      log: () => undefined,
      ...(this.options.dataConverter === undefined ? {} : { dataConverter: this.options.dataConverter }),
      ...options,
    });
    this.workers.push(worker);
    return worker;
  }

  async anotherClient(options: ClientOptions = {}): Promise<HoldfastClient> {
    const client = await HoldfastClient.connect({ address: this.server.address, ...options });
    this.clients.push(client);
    return client;
  }

  /** Starts an execution of the scripted provider in a conversation of its own. */
  async run(
    steps: readonly object[],
    more: Partial<StartExecutionRequest> & { suspend?: boolean } = {},
  ): Promise<StartedExecution['execution']> {
    const { suspend, config, ...request } = more;
    const steering = { steps: steps as never, ...(suspend === undefined ? {} : { suspend }), ...config };
    return await this.start({ providerId: 'scripted', config: steering, ...request });
  }

  /** Starts an execution, in a conversation of its own unless one is given. */
  async start(
    request: Partial<StartExecutionRequest> & { providerId: string },
  ): Promise<StartedExecution['execution']> {
    const conversationId = request.conversationId ?? (await this.client.createConversation()).id;
    const { execution } = await this.client.startExecution({ input: 'go', ...request, conversationId });
    this.started.push(execution.id);
    return execution;
  }

  /** The whole log as a live reader gets it. */
  async log(executionId: string, after = 0): Promise<HoldfastEvent[]> {
    const events: HoldfastEvent[] = [];
    for await (const event of this.client.events(executionId, { after })) events.push(event);
    return events;
  }

  /** Waits for an event that `fits` and returns it. Fails when the log ends without one. */
  async seen<T extends HoldfastEvent>(
    executionId: string,
    fits: (event: HoldfastEvent) => event is T,
    after?: number,
  ): Promise<T>;
  async seen(executionId: string, fits: (event: HoldfastEvent) => boolean, after?: number): Promise<HoldfastEvent>;
  async seen(executionId: string, fits: (event: HoldfastEvent) => boolean, after = 0): Promise<HoldfastEvent> {
    let last: HoldfastEvent | undefined;
    for await (const event of this.client.events(executionId, { after })) {
      if (fits(event)) return event;
      last = event;
    }
    throw new Error(`the log of ${executionId} ended without the awaited event: ${JSON.stringify(last)}`);
  }

  /** The open action, once there is one. */
  async action(executionId: string, after = 0): Promise<{ id: string; sequence: number }> {
    const event = await this.seen(executionId, isActionRequired, after);
    return { id: event.data.id, sequence: event.sequence };
  }

  /** The log's state as of now, folded by itself. */
  async state(executionId: string): Promise<LogState> {
    const reader = new LogReader(new HistoryReader(this.temporal, this.server.namespace, decoder()));
    return (await reader.foldRun(`default.${executionId}`)).fold.state;
  }

  handle(executionId: string, runId?: string) {
    return this.temporal.workflow.getHandle(`default.${executionId}`, runId);
  }

  /** Compares every execution that was started here; see compare-logs.ts. */
  async compare(): Promise<Comparison> {
    return await compareLogs(this.client, this.temporal, this.started);
  }

  /** Ends everything, and expects that its two readers gave the same log of every execution, byte for byte. */
  async stopCompared(): Promise<Comparison> {
    const compared = await this.compare();
    await this.stop();
    assert.deepEqual(compared.different, []);
    assert.equal(compared.divergences, 0);
    return compared;
  }

  async stop(): Promise<void> {
    for (const client of [this.client, ...this.clients]) await client.close();
    await Promise.all(this.workers.map((worker) => worker.shutdown({ drainMs: 0 })));
    await this.temporal.connection.close();
    await this.server.stop();
  }
}

export function isActionRequired(event: HoldfastEvent): event is Extract<HoldfastEvent, { type: 'action.required' }> {
  return event.type === 'action.required';
}

export function types(events: readonly HoldfastEvent[]): string[] {
  return events.map((event) => event.type);
}
