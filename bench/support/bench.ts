/** What every measure works with: one server, a Holdfast worker and client, a plain SDK worker and client. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Client, Connection } from '@temporalio/client';
import { HoldfastClient } from '../../client/client.js';
import { type DevServer, startDevServer } from '../../dev/server.js';
import { workflowIdOf } from '../../protocol/ids.js';
import { createWorker, type HoldfastWorker } from '../../worker/worker.js';
import { bundleWorkflows } from '../../worker/workflow-bundle.js';
import { BareWorker } from '../bare/worker.js';
import { type BenchTask, benchProvider } from '../holdfast/provider.js';
import { Arrivals } from './arrivals.js';
import { PROVIDER, TURNS_PROVIDER } from './names.js';
import type { Scale } from './scale.js';

export class Bench {
  readonly arrivals = new Arrivals();
  /** Conversations in which executions are started, one a lane, so that none is a bottleneck of its own. */
  readonly conversations: string[] = [];
  private bareWorker: BareWorker | undefined;
  private holdfastWorker: HoldfastWorker | undefined;
  private names = 0;

  private constructor(
    readonly scale: Scale,
    readonly server: DevServer,
    /** The plain SDK's client, with its own defaults. */
    readonly temporal: Client,
    readonly client: HoldfastClient,
    readonly say: (line: string) => void,
    private readonly folder: string,
  ) {}

  static async start(scale: Scale, say: (line: string) => void): Promise<Bench> {
    const server = await startDevServer({ onProgress: say });
    const folder = await bundled();
    const connection = await Connection.connect({ address: server.address });
    const temporal = new Client({ connection, namespace: server.namespace });
    const client = await HoldfastClient.connect({ address: server.address });
    const bench = new Bench(scale, server, temporal, client, say, folder);
    // First ours: it installs the process's SDK runtime.
    await bench.startWorker();
    bench.bareWorker = await BareWorker.start(server.address, temporal, bench.arrivals);
    for (let i = 0; i < Math.max(30, ...scale.concurrencies); i++)
      bench.conversations.push((await client.createConversation()).id);
    return bench;
  }

  /** Starts the Holdfast worker unless it runs. */
  async startWorker(): Promise<void> {
    const { arrivals } = this;
    this.holdfastWorker ??= await createWorker({
      address: this.server.address,
      providers: [
        benchProvider({ id: PROVIDER, arrivals }),
        benchProvider({ id: TURNS_PROVIDER, turns: true, arrivals }),
      ],
      handleSignals: false,
    });
  }

  async stopWorker(): Promise<void> {
    await this.holdfastWorker?.shutdown({ drainMs: 0 });
    this.holdfastWorker = undefined;
  }

  /** Submits an execution in the conversation of a lane and returns its id. */
  async submit(task: BenchTask, options: { readonly lane?: number; readonly providerId?: string } = {}) {
    const { lane = 0, providerId = PROVIDER } = options;
    const conversationId = this.conversations[lane % this.conversations.length] ?? '';
    const { execution } = await this.client.startExecution({
      conversationId,
      providerId,
      input: 'go',
      config: { task },
    });
    return execution.id;
  }

  /** Waits until an execution asks, and returns the id of what it asks. */
  async openAction(executionId: string): Promise<string> {
    for await (const event of this.client.events(executionId))
      if (event.type === 'action.required') return event.data.id;
    throw new Error(`${executionId} ended without asking`);
  }

  /** The plain SDK's handle of an execution's or a conversation's workflow. */
  handle(id: string) {
    return this.temporal.workflow.getHandle(workflowIdOf('default', id));
  }

  /** A workflow id that was not given yet. */
  freshId(prefix: string): string {
    this.names += 1;
    return `${prefix}-${process.pid}-${this.names}`;
  }

  async stop(): Promise<void> {
    await this.client.close();
    await this.stopWorker();
    await this.bareWorker?.stop();
    await this.temporal.connection.close();
    await this.server.stop();
    await rm(this.folder, { recursive: true, force: true });
  }
}

/**
 * Bundles the workflows once, into a folder that it returns, for all workers of the bench: as in the built package,
 * where no worker bundles anything. Else an idle worker would be weighed with all of webpack in its memory.
 */
async function bundled(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'holdfast-bench-'));
  const path = join(folder, 'workflow-bundle.js');
  await writeFile(path, (await bundleWorkflows()).code);
  process.env.HOLDFAST_WORKFLOW_BUNDLE = path;
  return folder;
}
