/**
 * The slots of a provider's pool. What is limited is the number of *live providers*, not of activities: one that was
 * rolled over lives on without its `run` activity, and one that ignored its abort counts until its code returns.
 */
import type { ActivitySlotInfo, CustomSlotSupplier, SlotPermit } from '@temporalio/worker';
import type { Host } from '../activities/host.js';

export class ProviderSlots implements CustomSlotSupplier<ActivitySlotInfo> {
  readonly type = 'custom' as const;
  private permits = 0;
  private readonly waiting = new Set<() => void>();

  constructor(
    private readonly host: Host,
    private readonly providerId: string,
    private readonly limit: number,
  ) {
    host.onFreed(() => this.wake());
  }

  async reserveSlot(_ctx: unknown, abortSignal: AbortSignal): Promise<SlotPermit> {
    while (!this.free()) {
      await new Promise<void>((resolve, reject) => {
        const stop = (): void => {
          this.waiting.delete(go);
          // The SDK takes any other error than its own reason for a fault of ours.
          reject(abortSignal.reason);
        };
        const go = (): void => {
          this.waiting.delete(go);
          abortSignal.removeEventListener('abort', stop);
          resolve();
        };
        if (abortSignal.aborted) return stop();
        this.waiting.add(go);
        abortSignal.addEventListener('abort', stop, { once: true });
      });
    }
    this.permits += 1;
    return {};
  }

  tryReserveSlot(): SlotPermit | null {
    if (!this.free()) return null;
    this.permits += 1;
    return {};
  }

  markSlotUsed(): void {}

  releaseSlot(): void {
    this.permits -= 1;
    this.wake();
  }

  private free(): boolean {
    const { inRun, held } = this.host.occupancy(this.providerId);
    // Permits that are not (yet) in a `run`, and what `run`s and live providers hold.
    return this.permits - inRun + held.size < this.limit;
  }

  private wake(): void {
    for (const waiter of [...this.waiting]) waiter();
  }
}
