/**
 * A host without a provider: it takes attempts, announces itself and holds them as a host does, and a test pulls the
 * strings. What it sends of "its provider" are the raw signals that the test makes up.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Context } from '@temporalio/activity';
import { NativeConnection, Worker } from '@temporalio/worker';
import { decoder } from '../../log/decode.js';
import { HistoryReader } from '../../log/history.js';
import { LogReader } from '../../log/reader.js';
import type { JsonObject } from '../../protocol/json.js';
import { PROTOCOL_VERSION, type ProviderManifest } from '../../protocol/manifest.js';
import { announceProviders } from '../../worker/announce.js';
import {
  type DeliverInput,
  type HostActivities,
  type HostOutcome,
  type HostRef,
  providerQueue,
} from '../../workflows/messages.js';
import { type Cluster, PATIENT_POOL } from './cluster.js';

/** What an execution's input says of how its puppet behaves. */
export interface PuppetInput extends JsonObject {
  readonly recovery: 'none' | 'journal';
  /** Turned down by the worker's own manifest, before anything starts. */
  readonly refuse: boolean;
}

/** One execution's puppet, attempt after attempt. */
export interface Strings {
  /** The tokens that it announced, oldest first. */
  readonly tokens: string[];
  readonly deliveries: DeliverInput[];
  readonly stops: HostRef[];
  /** What its present activity returns next. */
  wish: 'lose' | 'rollover' | undefined;
}

const QUEUE = 'puppet-host';
/** The strings are looked at often; the log, which costs a read, seldom. */
const LOOK_MS = 20;
const LOOKS_PER_READ = 20;
const CAPABILITIES = {
  'action.approval': 'native',
  'action.input': 'emulated',
  'artifact.list': 'native',
  'execution.cancel': 'native',
} as const;

export class PuppetHost {
  private readonly puppets = new Map<string, Strings>();
  private readonly stopped = new Set<string>();
  private readonly workers: Worker[] = [];
  private ended: Promise<unknown> = Promise.resolve();
  private readonly reader: LogReader;

  private constructor(
    private readonly cluster: Cluster,
    private readonly connection: NativeConnection,
  ) {
    const { temporal, server } = cluster;
    this.reader = new LogReader(new HistoryReader(temporal, server.namespace, decoder()));
  }

  /** Serves the provider `id`, and announces it. A worker for the workflows must be there. */
  static async start(cluster: Cluster, id: string): Promise<PuppetHost> {
    const connection = await NativeConnection.connect({ address: cluster.server.address });
    const host = new PuppetHost(cluster, connection);
    const serve = async (taskQueue: string, activities: Partial<HostActivities>): Promise<void> => {
      const { namespace } = cluster.server;
      host.workers.push(
        await Worker.create({ connection, namespace, taskQueue, activities, shutdownForceTime: '1 s' }),
      );
    };
    await serve(providerQueue(id), { run: (input) => host.run(input.workflowId, input.attempt) });
    await serve(QUEUE, {
      watch: (input) => host.hold(input.workflowId, input.token),
      deliver: async (input) => host.deliver(input),
      stop: async (input) => {
        host.of(input.workflowId).stops.push(input);
        host.stopped.add(input.token);
        return { confirmation: 'cooperative' };
      },
    });
    host.ended = Promise.all(host.workers.map((worker) => worker.run()));
    const manifest: ProviderManifest = {
      id,
      name: 'Puppet',
      version: '1',
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['embedded'],
      capabilities: CAPABILITIES,
    };
    await announceProviders(cluster.temporal, [{ manifest, taskQueue: providerQueue(id), pool: PATIENT_POOL }]);
    return host;
  }

  of(workflowId: string): Strings {
    let strings = this.puppets.get(workflowId);
    if (strings === undefined) {
      strings = { tokens: [], deliveries: [], stops: [], wish: undefined };
      this.puppets.set(workflowId, strings);
    }
    return strings;
  }

  async stop(): Promise<void> {
    for (const worker of this.workers) worker.shutdown();
    await this.ended;
    await this.connection.close();
  }

  private deliver(input: DeliverInput): void {
    const strings = this.of(input.workflowId);
    if (input.rollover) strings.wish = 'rollover';
    else strings.deliveries.push(input);
  }

  private async run(workflowId: string, attempt: number): Promise<HostOutcome> {
    const { state } = (await this.reader.foldRun(workflowId)).fold;
    const { recovery, refuse } = state.request.input as PuppetInput;
    if (refuse)
      return { kind: 'settled', result: { how: 'refused', code: 'CAPABILITY_UNSUPPORTED', message: 'not here' } };
    const strings = this.of(workflowId);
    const token = `${workflowId}-${attempt}-${strings.tokens.length}`;
    const { requiredCapabilities } = state.request;
    const capabilities = Object.fromEntries(
      Object.entries(CAPABILITIES).filter(([name]) => requiredCapabilities.includes(name)),
    );
    const took = state.answers.findLast((answer) => answer.suspended)?.action.id;
    const started = { kind: 'started', ...(took === undefined ? {} : { took }) };
    await this.signal(workflowId, 'announce', {
      attempt,
      token,
      queue: QUEUE,
      watchQueue: QUEUE,
      providerVersion: '1',
      capabilities,
      effectiveConfig: {},
      recovery,
    });
    await this.signal(workflowId, 'append', { token, batch: 1, items: [started] });
    strings.tokens.push(token);
    return await this.hold(workflowId, token);
  }

  /** Stays until the log no longer counts on this attempt, it is stopped, or the test wishes for something else. */
  private async hold(workflowId: string, token: string): Promise<HostOutcome> {
    const strings = this.of(workflowId);
    for (let looks = 1; ; looks++) {
      Context.current().heartbeat('alive');
      if (this.stopped.has(token)) return { kind: 'stopped', confirmation: 'cooperative' };
      const { wish } = strings;
      strings.wish = undefined;
      if (wish === 'rollover') return { kind: 'rollover' };
      if (wish === 'lose') return { kind: 'settled', result: { how: 'lost', message: 'as the test wished' } };
      if (looks % LOOKS_PER_READ === 0) {
        const { result, host } = (await this.reader.foldRun(workflowId)).fold.state;
        if (result !== undefined || host?.token !== token || host.suspended) return { kind: 'logged' };
      }
      await delay(LOOK_MS);
    }
  }

  /** One that has ended meanwhile takes no more signals. */
  private async signal(workflowId: string, name: string, argument: object): Promise<void> {
    const handle = this.cluster.temporal.workflow.getHandle(workflowId);
    await handle.signal(name, argument).catch(() => undefined);
  }
}
