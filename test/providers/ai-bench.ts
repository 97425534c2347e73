/** A cluster, the local model, and workers with the `ai` provider in this process and in others. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { type LocalModel, type LoggedRequest, startLocalModel } from '../../examples/local-model/server.js';
import type { AiOptions } from '../../providers/ai/ai.js';
import type { HoldfastWorker } from '../../worker/worker.js';
import { Cluster } from '../support/cluster.js';
import { scratchFolder } from '../support/scratch.js';
import { rig, runsIn } from './ai-rig.js';

export class AiBench {
  /** Each run of a tool is a line in it. */
  private readonly runsFile = join(scratchFolder('ai-'), 'runs');
  private readonly workers: HoldfastWorker[] = [];
  private readonly processes: ChildProcess[] = [];

  private constructor(
    readonly cluster: Cluster,
    readonly model: LocalModel,
  ) {}

  static async start(): Promise<AiBench> {
    const [cluster, model] = await Promise.all([Cluster.start(), startLocalModel()]);
    return new AiBench(cluster, model);
  }

  get runs(): string[] {
    return runsIn(this.runsFile);
  }

  async worker(options: Partial<AiOptions> = {}): Promise<HoldfastWorker> {
    const { url, apiKey } = this.model;
    const worker = await this.cluster.worker({ providers: [rig({ url, apiKey, runs: this.runsFile, options })] });
    this.workers.push(worker);
    return worker;
  }

  async workerProcess(more: Pick<AiOptions, 'policy'> = {}): Promise<ChildProcess> {
    const script = fileURLToPath(new URL('./ai-worker.ts', import.meta.url));
    const { url, apiKey } = this.model;
    const { address } = this.cluster.server;
    const options = JSON.stringify({ url, apiKey, runs: this.runsFile, address, options: more });
    const child = spawn(process.execPath, ['--import', 'tsx', script, options], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.processes.push(child);
    await once(child.stdout!, 'data');
    return child;
  }

  async run(input: string, providerId = 'ai'): Promise<string> {
    return (await this.cluster.start({ providerId, input })).id;
  }

  /** The model's own log of what was asked for this prompt. */
  requests(input: string): LoggedRequest[] {
    return this.model.requests.filter(({ body }) => body.messages.some((message) => message.content === input));
  }

  /** Ends all workers. */
  async clear(): Promise<void> {
    for (const worker of this.workers.splice(0)) await worker.shutdown({ drainMs: 0 });
    for (const process of this.processes.splice(0)) await kill(process);
  }

  /** Compares every log with what its workflow knows, and ends everything. */
  async stop(): Promise<void> {
    if (this.workers.length === 0) await this.worker();
    const compared = await this.cluster.compare();
    await this.clear();
    await this.cluster.stop();
    await this.model.stop();
    expect(compared.different).toEqual([]);
  }
}

/** `kill -9`; resolves when it is gone. */
export async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}
