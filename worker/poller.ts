/** An SDK worker that is created anew whenever it dies by itself, for as long as the process lives. */
import { setTimeout as delay } from 'node:timers/promises';
import { Worker, type WorkerOptions } from '@temporalio/worker';
import type { RunContext } from '../providers/provider.js';

const RECREATE_MS = 1_000;

export class Poller {
  /** Resolves when it has stopped. */
  readonly ended: Promise<void>;
  private stopping = false;

  private constructor(
    private worker: Worker,
    private readonly options: WorkerOptions,
    private readonly log: RunContext['log'],
  ) {
    this.ended = this.run();
  }

  /** Creates it and lets it poll. Rejects when the first one does not come up. */
  static async start(options: WorkerOptions, log: RunContext['log']): Promise<Poller> {
    return new Poller(await Worker.create(options), options, log);
  }

  get queue(): string {
    return this.options.taskQueue;
  }

  /** Polls no more; what it has taken is finished first. */
  stop(): void {
    this.stopping = true;
    if (this.worker.getState() === 'RUNNING') this.worker.shutdown();
  }

  private async run(): Promise<void> {
    const { queue } = this;
    for (;;) {
      try {
        const running = this.worker.run();
        // Made anew while the rest was being stopped.
        if (this.stopping) this.worker.shutdown();
        return await running;
      } catch (error) {
        if (this.stopping) return;
        this.log('error', 'an SDK worker died and is created anew', { taskQueue: queue, error: String(error) });
      }
      await this.recreate();
      if (this.stopping) return;
    }
  }

  private async recreate(): Promise<void> {
    while (!this.stopping) {
      await delay(RECREATE_MS, undefined, { ref: false });
      if (this.stopping) return;
      try {
        this.worker = await Worker.create(this.options);
        return;
      } catch (error) {
        this.log('error', 'a worker cannot be created yet', { taskQueue: this.queue, error: String(error) });
      }
    }
  }
}
