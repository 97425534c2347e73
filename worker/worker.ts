/**
 * A Holdfast worker: the workflows' queue, one queue per provider, and the host's own queues, wired together. Providers
 * outlive any SDK worker among them: one that dies inside a living process is created anew, with the same host.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Client, type ConnectionOptions } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { NativeConnection, type NativeConnectionOptions, Worker, type WorkerOptions } from '@temporalio/worker';
import { z } from 'zod';
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
import { type ProviderManifest, providerManifestSchema } from '../protocol/manifest.js';
import type { AnyProvider, RunContext } from '../providers/provider.js';
import { DEFAULT_POOL_SETTINGS, type PoolSettings, providerQueue, WORKFLOW_QUEUE } from '../workflows/messages.js';
import { announceProviders, checkCodec, checkNamespace } from './announce.js';
import { workerDataConverter } from './data-converter.js';
import { providerHost, startProviders } from './provider-host.js';
import { installRuntime } from './runtime.js';
import { ProviderSlots } from './slots.js';
import { workflowBundle } from './workflow-bundle.js';

export interface HoldfastWorkerOptions {
  readonly providers: readonly AnyProvider[];
  /** Host and port of the Temporal frontend. Default `localhost:7233`. */
  readonly address?: string;
  /** Default `default`. */
  readonly namespace?: string;
  /** Further connection options: `tls`, `apiKey`, `metadata`. */
  readonly connection?: Pick<ConnectionOptions, 'tls' | 'apiKey' | 'metadata'>;
  /** Payload codecs and failure converter; the same as the client's. */
  readonly dataConverter?: DataConverter;
  /** Live providers at once, by provider id. Default 2 for one that runs a subprocess, else 100. */
  readonly slots?: Readonly<Record<string, number>>;
  /** When a run is continued as new. Default 1,000 batches or 4 MiB. */
  readonly rollover?: { readonly batches?: number; readonly bytes?: number };
  /** How this worker's executions are watched, in milliseconds. */
  readonly pool?: Partial<PoolSettings>;
  /** How long `shutdown` waits for live providers before it stops them, in milliseconds. Default 30 s. */
  readonly drainMs?: number;
  /** Drain on SIGTERM and SIGINT. Default true. */
  readonly handleSignals?: boolean;
  /** Where diagnostics go; default: warnings and errors to standard error, as JSON lines. */
  readonly log?: RunContext['log'];
}

const DEFAULT_DRAIN_MS = 30_000;
const RECREATE_MS = 1_000;

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
  const providers = checkedProviders(options.providers);
  for (const id of Object.keys(options.slots ?? {}))
    if (!providers.has(id))
      throw new HoldfastError(
        'VALIDATION_ERROR',
        `createWorker: slots.${id}: no such provider; there are: ${[...providers.keys()].join(', ')}`,
      );
  const worker = new HoldfastWorker(options, providers);
  await worker.start();
  return worker;
}

const milliseconds = z.number().min(1).max(86_400_000).optional();
const anything = z.unknown().optional();
const optionsSchema = z.strictObject({
  providers: anything,
  address: z.string().min(1).optional(),
  namespace: z.string().min(1).optional(),
  connection: anything,
  dataConverter: anything,
  handleSignals: z.boolean().optional(),
  log: anything,
  slots: z.record(z.string(), z.int().min(1).max(100_000)).optional(),
  rollover: z
    .strictObject({
      batches: z.int().min(1).max(2_000).optional(),
      bytes: z
        .int()
        .min(1)
        .max(16_384 * KIB)
        .optional(),
    })
    .optional(),
  pool: z
    .strictObject({ heartbeatTimeoutMs: milliseconds, leaseMs: milliseconds, stopGraceMs: milliseconds })
    .optional(),
  drainMs: z.number().min(0).optional(),
});

function checkOptions(options: HoldfastWorkerOptions): void {
  const parsed = optionsSchema.safeParse(options);
  const { leaseMs, stopGraceMs } = { ...DEFAULT_POOL_SETTINGS, ...options.pool };
  if (parsed.success && stopGraceMs > leaseMs)
    // A host has to be done with a provider before anyone may start it elsewhere.
    throw new HoldfastError('VALIDATION_ERROR', 'createWorker: pool.stopGraceMs: must be at most pool.leaseMs');
  if (parsed.success) return;
  const [issue] = parsed.error.issues;
  throw new HoldfastError('VALIDATION_ERROR', `createWorker: ${issue?.path.join('.') || 'options'}: ${issue?.message}`);
}

function checkedProviders(given: readonly AnyProvider[]): ReadonlyMap<string, AnyProvider> {
  const providers = new Map<string, AnyProvider>();
  for (const provider of given) {
    if (typeof provider === 'function')
      throw new HoldfastError('VALIDATION_ERROR', 'a provider is a function; was it meant to be called, as in echo()?');
    const manifest = providerManifestSchema.safeParse(provider.manifest);
    if (!manifest.success) {
      const issue = manifest.error.issues[0];
      const where = `provider ${JSON.stringify(provider.manifest?.id)}: manifest.${issue?.path.join('.')}`;
      throw new HoldfastError('VALIDATION_ERROR', `${where}: ${issue?.message}`);
    }
    if (providers.has(manifest.data.id))
      throw new HoldfastError('VALIDATION_ERROR', `two providers have the id ${JSON.stringify(manifest.data.id)}`);
    providers.set(manifest.data.id, provider);
  }
  if (providers.size === 0) throw new HoldfastError('VALIDATION_ERROR', 'a worker needs at least one provider');
  return providers;
}

/** The manifest as it is published: with the JSON Schema of the configuration, so that callers are told at once. */
export function publishedManifest(provider: AnyProvider): ProviderManifest {
  const configSchema = z.toJSONSchema(provider.config, { io: 'input', unrepresentable: 'any' });
  const metadata = { ...provider.manifest.metadata, configSchema: JSON.parse(JSON.stringify(configSchema)) };
  return { ...provider.manifest, metadata };
}

export class HoldfastWorker {
  /** Resolves when the worker has stopped, for whatever reason. */
  readonly done: Promise<void>;
  private readonly pool: PoolSettings;
  private readonly namespace: string;
  private readonly log: RunContext['log'];
  private connections: { native: NativeConnection; client: Client } | undefined;
  private hostInUse: Host | undefined;
  private readonly loops: { worker: Worker | undefined; stopping: boolean; ended: Promise<void>; queue: string }[] = [];
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

  private slotsOf(id: string): number {
    const topologies = this.providers.get(id)?.manifest.topologies ?? [];
    return this.options.slots?.[id] ?? (topologies.includes('subprocess') ? 2 : 100);
  }

  /** Runs an SDK worker, and a new one whenever it dies by itself. The first must come up. */
  private async keep(options: WorkerOptions): Promise<void> {
    const entry = {
      worker: undefined as Worker | undefined,
      stopping: false,
      ended: Promise.resolve(),
      queue: options.taskQueue,
    };
    let worker = await Worker.create(options);
    entry.worker = worker;
    entry.ended = (async () => {
      for (;;) {
        try {
          const running = worker.run();
          // Made anew while the rest was being stopped.
          if (entry.stopping) worker.shutdown();
          await running;
          return;
        } catch (error) {
          if (entry.stopping) return;
          this.log('error', 'an SDK worker died and is created anew', {
            taskQueue: options.taskQueue,
            error: String(error),
          });
        }
        for (;;) {
          await delay(RECREATE_MS, undefined, { ref: false });
          if (entry.stopping) return;
          try {
            worker = await Worker.create(options);
            entry.worker = worker;
            break;
          } catch (error) {
            this.log('error', 'a worker cannot be created yet', { taskQueue: options.taskQueue, error: String(error) });
          }
        }
      }
    })();
    this.loops.push(entry);
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
    const pools = this.loops.filter((loop) => loop.queue.startsWith('holdfast-provider-'));
    host?.beginDrain();
    for (const loop of pools) stopLoop(loop);
    if (host !== undefined) {
      await host.idle(AbortSignal.any([AbortSignal.timeout(Math.max(1, drainMs)), this.hurried.signal]));
      await host.stopAll(this.pool.stopGraceMs);
    }
    for (const loop of pools) await loop.ended;
    await this.endProviders();
    const rest = this.loops.filter((loop) => !pools.includes(loop));
    for (const loop of rest) stopLoop(loop);
    await Promise.all(rest.map((loop) => loop.ended));
    await this.connections?.client.connection.close();
    await this.connections?.native.close();
  }
}

function stopLoop(loop: { worker: Worker | undefined; stopping: boolean }): void {
  loop.stopping = true;
  if (loop.worker?.getState() === 'RUNNING') loop.worker.shutdown();
}

function logLine(level: string, message: string, fields?: Record<string, unknown>): void {
  if (level === 'debug' || level === 'info') return;
  process.stderr.write(`${JSON.stringify({ level, message, ...fields })}\n`);
}
