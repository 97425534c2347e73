/**
 * A Holdfast worker: the workflows' queue, one queue per provider, and the host's own queues, wired together. Providers
 * outlive any SDK worker among them: one that dies inside a living process is created anew, with the same host.
 */
import { Client } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { NativeConnection, type NativeConnectionOptions, type WorkerOptions } from '@temporalio/worker';
import { coreActivities } from '../activities/core.js';
import { Host } from '../activities/host.js';
import { ServerCalls } from '../activities/server-calls.js';
import { translate } from '../client/translate.js';
import { connect } from '../log/connect.js';
import { decoder } from '../log/decode.js';
import { grpcMessage } from '../log/grpc.js';
import { HistoryReader } from '../log/history.js';
import { LogReader } from '../log/reader.js';
import { HoldfastError } from '../protocol/errors.js';
import { KIB } from '../protocol/limits.js';
import type { AnyProvider, RunContext } from '../providers/provider.js';
import { DEFAULT_POOL_SETTINGS, type PoolSettings, providerQueue, WORKFLOW_QUEUE } from '../workflows/messages.js';
import { announceProviders, checkCodec, checkNamespace } from './announce.js';
import { workerDataConverter } from './data-converter.js';
import { checkedProviders, checkOptions, type HoldfastWorkerOptions, publishedManifest } from './options.js';
import { Poller } from './poller.js';
import { providerHost, startProviders } from './provider-host.js';
import { installRuntime } from './runtime.js';
import { ProviderSlots } from './slots.js';
import { workflowBundle } from './workflow-bundle.js';

const DEFAULT_DRAIN_MS = 30_000;
/** How long draining waits, at most, for the ends of what it stopped to be on record. */
const RECORD_MS = 3_000;

/**
 * Connects, starts polling, and resolves when the worker's providers are in the catalog, so that an execution can be
 * submitted at once.
 *
 * @throws HoldfastError `VALIDATION_ERROR` for options that make no sense, `RUNTIME_UNAVAILABLE` when the server does not
 * answer or lacks the search attributes (the message names the command that registers them).
 *
 * @example
 * const worker = await createWorker({ providers: [scriptedProvider()] });
 * await worker.done;
 */
export async function createWorker(options: HoldfastWorkerOptions): Promise<HoldfastWorker> {
  checkOptions(options);
  const providers = checkedProviders(options);
  const worker = new HoldfastWorker(options, providers);
  await worker.start();
  return worker;
}

export class HoldfastWorker {
  /** Resolves when the worker has stopped, for whatever reason. */
  readonly done: Promise<void>;
  private readonly pool: PoolSettings;
  private readonly namespace: string;
  private readonly log: RunContext['log'];
  private connections: { native: NativeConnection; client: Client } | undefined;
  private hostInUse: Host | undefined;
  private readonly pollers: Poller[] = [];
  private stopped: Promise<void> | undefined;
  private finish: () => void = () => undefined;
  private hurried = new AbortController();
  private endProviders: () => Promise<void> = async () => undefined;

  constructor(
    private readonly options: HoldfastWorkerOptions,
    private readonly providers: ReadonlyMap<string, AnyProvider>,
  ) {
    this.pool = { ...DEFAULT_POOL_SETTINGS, ...options.pool };
    this.namespace = options.namespace ?? 'default';
    this.log = options.log ?? logLine;
    this.done = new Promise((resolve) => {
      this.finish = resolve;
    });
  }

  /** Called once, by `createWorker`. */
  async start(): Promise<void> {
    installRuntime();
    const converter = workerDataConverter(this.options.dataConverter);
    const { native, client } = await this.connect(converter);
    this.connections = { native, client };
    try {
      await checkNamespace(client, this.namespace, this.log);
      await checkCodec(client);
      this.endProviders = await startProviders(this.providers, providerHost(client, this.log));
      const reader = new LogReader(new HistoryReader(client, this.namespace, decoder(converter.payloadCodecs)));
      const host = new Host({
        calls: new ServerCalls(client),
        reader,
        providers: this.providers,
        rollover: {
          batches: this.options.rollover?.batches ?? 1_000,
          bytes: this.options.rollover?.bytes ?? 4096 * KIB,
        },
        log: this.log,
      });
      this.hostInUse = host;
      await this.poll(native, converter, host, client, reader);
      if (this.options.handleSignals !== false) this.handleSignals();
      await announceProviders(
        client,
        [...this.providers.values()].map((provider) => ({
          manifest: publishedManifest(provider),
          taskQueue: providerQueue(provider.manifest.id),
          pool: this.pool,
        })),
      );
    } catch (error) {
      await this.shutdown({ drainMs: 0 });
      throw translate(error, 'worker');
    }
  }

  private async connect(dataConverter: DataConverter): Promise<{ native: NativeConnection; client: Client }> {
    const address = this.options.address ?? 'localhost:7233';
    const { tls, apiKey, metadata } = this.options.connection ?? {};
    const connection = {
      address,
      ...(tls === undefined ? {} : { tls }),
      ...(apiKey === undefined ? {} : { apiKey }),
      ...(metadata === undefined ? {} : { metadata }),
    };
    try {
      const native = await NativeConnection.connect(connection as NativeConnectionOptions);
      try {
        const own = await connect(connection);
        return { native, client: new Client({ connection: own, namespace: this.namespace, dataConverter }) };
      } catch (error) {
        await native.close();
        throw error;
      }
    } catch (error) {
      throw new HoldfastError(
        'RUNTIME_UNAVAILABLE',
        `no Temporal server answers at ${address}: ${grpcMessage(error)}`,
        {
          cause: error,
        },
      );
    }
  }

  private async poll(
    connection: NativeConnection,
    dataConverter: DataConverter,
    host: Host,
    client: Client,
    reader: LogReader,
  ): Promise<void> {
    const shared = {
      connection,
      namespace: this.namespace,
      dataConverter,
      // Draining is ours: a live provider is never cancelled by a worker that goes.
      shutdownGraceTime: '365 days',
      maxHeartbeatThrottleInterval: Math.max(100, this.pool.heartbeatTimeoutMs / 3),
    } as const;
    const bundle = await workflowBundle(dataConverter);
    await this.keep({
      ...shared,
      taskQueue: WORKFLOW_QUEUE,
      workflowBundle: bundle,
      activities: coreActivities(client, reader),
      stickyQueueScheduleToStartTimeout: '2 s',
      shutdownGraceTime: '2 s',
      shutdownForceTime: '5 s',
    });
    for (const id of this.providers.keys()) {
      const slots = new ProviderSlots(host, id, this.slotsOf(id));
      await this.keep({
        ...shared,
        taskQueue: providerQueue(id),
        activities: { run: host.run },
        maxConcurrentActivityTaskPolls: Math.min(2, this.slotsOf(id)),
        tuner: {
          workflowTaskSlotSupplier: { type: 'fixed-size', numSlots: 1 },
          activityTaskSlotSupplier: slots,
          localActivityTaskSlotSupplier: { type: 'fixed-size', numSlots: 1 },
          nexusTaskSlotSupplier: { type: 'fixed-size', numSlots: 1 },
        },
      });
    }
    // Neither has a limit worth the name: with two slots, two watches starved both answers.
    const unlimited = { maxConcurrentActivityTaskExecutions: 10_000, maxConcurrentActivityTaskPolls: 2 };
    const short = { shutdownGraceTime: '1 s', shutdownForceTime: '3 s' } as const;
    await this.keep({
      ...shared,
      ...unlimited,
      ...short,
      taskQueue: host.queue,
      activities: { deliver: host.deliver, stop: host.stop },
    });
    await this.keep({
      ...shared,
      ...unlimited,
      ...short,
      taskQueue: host.watchQueue,
      activities: { watch: host.watch },
    });
  }

  private async keep(options: WorkerOptions): Promise<void> {
    this.pollers.push(await Poller.start(options, this.log));
  }

  private slotsOf(id: string): number {
    const topologies = this.providers.get(id)?.manifest.topologies ?? [];
    return this.options.slots?.[id] ?? (topologies.includes('subprocess') ? 2 : 100);
  }

  private handleSignals(): void {
    const onSignal = (): void => {
      if (this.stopped === undefined)
        this.shutdown().catch((error) => this.log('error', 'draining failed', { error: String(error) }));
      else this.hurried.abort();
    };
    process.on('SIGTERM', onSignal);
    process.on('SIGINT', onSignal);
    void this.done.then(() => {
      process.off('SIGTERM', onSignal);
      process.off('SIGINT', onSignal);
    });
  }

  /**
   * Drains and stops: no new providers; live ones may finish for `drainMs`, with answers still arriving; what is left is
   * stopped (a journaled one goes on elsewhere at once, any other ends as `PROVIDER_LOST`); then everything else. A
   * second SIGTERM or SIGINT skips the wait.
   */
  shutdown(options: { readonly drainMs?: number } = {}): Promise<void> {
    this.stopped ??= this.drain(options.drainMs ?? this.options.drainMs ?? DEFAULT_DRAIN_MS).finally(this.finish);
    return this.stopped;
  }

  private async drain(drainMs: number): Promise<void> {
    const host = this.hostInUse;
    const pools = this.pollers.filter(({ queue }) => queue.startsWith(providerQueue('')));
    host?.beginDrain();
    for (const pool of pools) pool.stop();
    const within = (ms: number): AbortSignal => AbortSignal.any([AbortSignal.timeout(ms), this.hurried.signal]);
    await host?.idle(within(Math.max(1, drainMs)));
    const lost = (await host?.stopAll(this.pool.stopGraceMs)) ?? [];
    for (const pool of pools) await pool.ended;
    await host?.recorded(lost, within(RECORD_MS));
    await this.endProviders();
    const rest = this.pollers.filter((poller) => !pools.includes(poller));
    for (const poller of rest) poller.stop();
    await Promise.all(rest.map((poller) => poller.ended));
    await this.connections?.client.connection.close();
    await this.connections?.native.close();
  }
}

function logLine(level: string, message: string, fields?: Record<string, unknown>): void {
  if (level === 'debug' || level === 'info') return;
  process.stderr.write(`${JSON.stringify({ level, message, ...fields })}\n`);
}
