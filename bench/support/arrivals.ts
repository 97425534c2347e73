/** Where code on the far side (an activity, a provider) tells when something reached it. In one process, so one clock. */
import { now } from './stats.js';

export class Arrivals {
  private readonly awaited = new Map<string, (at: number) => void>();

  /** Resolves with the time when `id` arrives. To be called before it can. */
  expect(id: string): Promise<number> {
    return new Promise((resolve) => this.awaited.set(id, resolve));
  }

  arrived(id: string): void {
    const at = now();
    this.awaited.get(id)?.(at);
    this.awaited.delete(id);
  }
}
