/** A provider that asks, and completes a moment later whether or not it was answered. */
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider } from '../../providers/provider.js';

export function briefProvider(): Provider<{ forMs: number }> {
  return {
    manifest: {
      id: 'brief',
      name: 'Brief',
      version: '1',
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['embedded'],
      capabilities: { 'action.approval': 'native', 'execution.cancel': 'native' },
    },
    config: z.strictObject({ forMs: z.int() }),
    async run(ctx) {
      const answered = ctx.requestAction({ kind: 'approval', title: 'quick?' }).then(() => 'answered');
      answered.catch(() => undefined);
      await delay(ctx.config.forMs);
      return { finalOutput: 'brief' };
    },
  };
}
