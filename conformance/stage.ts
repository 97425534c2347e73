/** A server, a worker and a client for a provider that is at hand. */
import { HoldfastClient } from '../client/client.js';
import { type DevServer, startDevServer } from '../dev/server.js';
import { providerManifestSchema } from '../protocol/manifest.js';
import type { AnyProvider } from '../providers/provider.js';
import { createWorker } from '../worker/worker.js';

export interface StageOptions {
  readonly provider: AnyProvider;
  /** Of a Temporal frontend. Without it a dev server is started and ended. */
  readonly address?: string;
  readonly namespace?: string;
  readonly slots: number;
  /** Of the worker's pool: how long a provider that is told to stop may take. */
  readonly stopGraceMs?: number;
}

export interface Stage {
  readonly client: HoldfastClient;
  readonly cleanups: ReadonlyMap<string, number>;
  close(): Promise<void>;
}

export async function openStage(options: StageOptions): Promise<Stage> {
  const { provider, slots, namespace, stopGraceMs } = options;
  // Refused here it costs no server.
  providerManifestSchema.parse(provider.manifest);
  const cleanups = new Map<string, number>();
  const closing: (() => Promise<void>)[] = [];
  const close = async (): Promise<void> => {
    for (const end of closing.reverse()) await end();
  };
  try {
    let server: DevServer | undefined;
    if (options.address === undefined) {
      server = await startDevServer();
      closing.push(server.stop);
    }
    const where = {
      address: options.address ?? server?.address ?? '',
      ...(namespace === undefined ? {} : { namespace }),
    };
    const worker = await createWorker({
      ...where,
      providers: [counted(provider, cleanups)],
      slots: { [provider.manifest.id]: slots },
      handleSignals: false,
      ...(stopGraceMs === undefined ? {} : { pool: { stopGraceMs } }),
    });
    closing.push(() => worker.shutdown({ drainMs: 0 }));
    const client = await HoldfastClient.connect(where);
    closing.push(() => client.close());
    return { client, cleanups, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** The provider, with its cleanups counted. */
function counted(provider: AnyProvider, cleanups: Map<string, number>): AnyProvider {
  const { manifest, config, recovery } = provider;
  return {
    manifest,
    config,
    ...(recovery === undefined ? {} : { recovery }),
    run: (ctx) => provider.run(ctx),
    cancel: async (ctx) => {
      const { id } = ctx.execution;
      cleanups.set(id, (cleanups.get(id) ?? 0) + 1);
      await provider.cancel?.(ctx);
    },
  };
}
