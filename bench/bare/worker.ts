/** A plain SDK worker with the bare workflows, as the SDK's own documentation would set it up. */
import { fileURLToPath } from 'node:url';
import type { Client } from '@temporalio/client';
import { bundleWorkflowCode, NativeConnection, Worker } from '@temporalio/worker';
import type { Arrivals } from '../support/arrivals.js';
import { BARE_HOST_QUEUE, BARE_QUEUE } from '../workflows/messages.js';
import { bareActivities } from './activities.js';

const SILENT = { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error: console.error };

export class BareWorker {
  private constructor(
    private readonly connection: NativeConnection,
    private readonly workers: readonly Worker[],
    private readonly running: Promise<unknown>,
  ) {}

  static async start(address: string, client: Client, arrivals: Arrivals): Promise<BareWorker> {
    const workflowBundle = await bundleWorkflowCode({
      workflowsPath: fileURLToPath(new URL('../workflows/index.ts', import.meta.url)),
      logger: SILENT,
      // Sources name each other with `.js`, as Node wants it; here these are `.ts` files.
      webpackConfigHook: (config) => {
        config.resolve = { ...config.resolve, extensionAlias: { '.js': ['.ts', '.js'] } };
        return config;
      },
    });
    const connection = await NativeConnection.connect({ address });
    const activities = bareActivities(client, arrivals);
    const worker = await Worker.create({ connection, taskQueue: BARE_QUEUE, workflowBundle, activities });
    const host = await Worker.create({ connection, taskQueue: BARE_HOST_QUEUE, activities });
    const workers = [worker, host];
    return new BareWorker(connection, workers, Promise.all(workers.map((each) => each.run())));
  }

  async stop(): Promise<void> {
    for (const worker of this.workers) worker.shutdown();
    await this.running;
    await this.connection.close();
  }
}
