/** A provider that runs until it is told to stop, and shows from outside what of it is alive. */
import { z } from 'zod';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider } from '../../providers/provider.js';

export interface Probe {
  readonly provider: Provider<Record<string, never>>;
  /** Executions whose `run` is under way. */
  readonly running: ReadonlySet<string>;
  /** How often `run` and `cancel` were called, by execution. */
  readonly starts: ReadonlyMap<string, number>;
  readonly cleanups: ReadonlyMap<string, number>;
}

export function probeProvider(id: string): Probe {
  const running = new Set<string>();
  const starts = new Map<string, number>();
  const cleanups = new Map<string, number>();
  const count = (map: Map<string, number>, key: string): void => {
    map.set(key, (map.get(key) ?? 0) + 1);
  };
  return {
    running,
    starts,
    cleanups,
    provider: {
      manifest: {
        id,
        name: 'Probe',
        version: '1',
        protocolVersion: PROTOCOL_VERSION,
        topologies: ['embedded'],
        capabilities: { 'execution.cancel': 'native' },
      },
      config: z.strictObject({}),
      async run(ctx) {
        count(starts, ctx.execution.id);
        running.add(ctx.execution.id);
        await ctx.emit('output.text.delta', { text: 'alive' });
        await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve(), { once: true }));
        running.delete(ctx.execution.id);
        return {};
      },
      async cancel(ctx) {
        count(cleanups, ctx.execution.id);
      },
    },
  };
}
