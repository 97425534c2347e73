/** A provider with continuity that says what it was given of earlier turns, and keeps a native session of its own. */
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider } from '../../providers/provider.js';

export interface Turns {
  readonly provider: Provider<{ waitMs: number; approve: boolean }>;
  /** Executions in the order in which they ran. */
  readonly ran: readonly string[];
  /** The most that ran at once, by conversation. */
  readonly peak: ReadonlyMap<string, number>;
}

export function turnProvider(id: string, continuity: 'native' | 'emulated'): Turns {
  const ran: string[] = [];
  const live = new Map<string, number>();
  const peak = new Map<string, number>();
  return {
    ran,
    peak,
    provider: {
      manifest: {
        id,
        name: 'Turns',
        version: '1',
        protocolVersion: PROTOCOL_VERSION,
        topologies: ['embedded'],
        capabilities: {
          'conversation.continuity': continuity,
          'execution.cancel': 'native',
          'action.approval': 'native',
        },
      },
      config: z.strictObject({ waitMs: z.number().default(0), approve: z.boolean().default(false) }),
      recovery: 'journal',
      async run(ctx) {
        const { id: conversationId, session, transcript } = ctx.conversation;
        if (ctx.config.approve && ctx.resume?.response === undefined)
          return await ctx.suspend({ kind: 'approval', title: 'Go on?' });
        ran.push(ctx.execution.id);
        const now = (live.get(conversationId) ?? 0) + 1;
        live.set(conversationId, now);
        peak.set(conversationId, Math.max(peak.get(conversationId) ?? 0, now));
        const turn = typeof session === 'number' ? session + 1 : 1;
        await ctx.setSession(turn);
        const earlier = transcript.map((each) => each.output).join('|');
        await ctx.emit('output.text.delta', { text: `turn ${turn} after [${earlier}]` });
        await delay(ctx.config.waitMs, undefined, { signal: ctx.signal }).catch(() => undefined);
        live.set(conversationId, (live.get(conversationId) ?? 1) - 1);
        return { finalOutput: `turn ${turn}` };
      },
    },
  };
}
