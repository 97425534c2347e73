/** The provider that the bench runs executions with: small, embedded, and each emitted text is the time of its emission. */
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider, RunContext, RunResult } from '../../providers/provider.js';
import type { Arrivals } from '../support/arrivals.js';
import { now } from '../support/stats.js';

const count = z.int().min(0);

const taskSchema = z.discriminatedUnion('kind', [
  /** Emits so many texts, one after the other, and is done. */
  z.strictObject({ kind: z.literal('texts'), events: count }),
  z.strictObject({ kind: z.literal('paced'), events: count, perSecond: z.number().positive() }),
  /** As fast as they are taken. */
  z.strictObject({ kind: z.literal('flood'), events: count }),
  /** `stops` times: a flood of `between` texts, a rest, then `probes` single events, marked with a leading "p". */
  z.strictObject({ kind: z.literal('probed'), stops: count, between: count, probes: count }),
  z.strictObject({ kind: z.literal('approve'), suspend: z.boolean() }),
  z.strictObject({ kind: z.literal('hang') }),
]);
export type BenchTask = z.infer<typeof taskSchema>;

const configSchema = z.strictObject({ task: taskSchema });
type BenchConfig = z.infer<typeof configSchema>;

/** Longer than any interval in which events gather: an event after it is flushed at once. */
const REST_MS = 130;

export interface BenchProviderOptions {
  readonly id: string;
  /** Its executions wait for their turn in their conversation. */
  readonly turns?: boolean;
  readonly arrivals?: Arrivals;
}

export function benchProvider({ id, turns = false, arrivals }: BenchProviderOptions): Provider<BenchConfig> {
  return {
    manifest: {
      id,
      name: 'Bench',
      version: '1.0.0',
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['embedded'],
      capabilities: {
        'action.approval': 'native',
        'execution.cancel': 'native',
        'event.streaming': 'native',
        'conversation.continuity': turns ? 'native' : 'unsupported',
      },
    },
    config: configSchema,
    recovery: ({ task }) => (task.kind === 'approve' && task.suspend ? 'journal' : 'none'),
    run: (ctx) => perform(ctx, arrivals),
  };
}

async function perform(ctx: RunContext<BenchConfig>, arrivals: Arrivals | undefined): Promise<RunResult> {
  const { task } = ctx.config;
  switch (task.kind) {
    case 'texts':
    case 'flood':
      for (let i = 0; i < task.events; i++) await say(ctx);
      return {};
    case 'paced':
      await paced(ctx, task.events, 1_000 / task.perSecond);
      return {};
    case 'probed':
      for (let stop = 0; stop < task.stops; stop++) {
        for (let i = 0; i < task.between; i++) await say(ctx);
        for (let i = 0; i <= task.probes; i++) {
          await delay(REST_MS);
          // The first one only waits until the flood before it is through.
          await say(ctx, i === 0 ? '' : 'p');
        }
      }
      return {};
    case 'approve': {
      const question = { kind: 'approval', title: 'May it go on?' } as const;
      if (task.suspend) return ctx.resume?.response === undefined ? await ctx.suspend(question) : {};
      await ctx.requestAction(question);
      arrivals?.arrived(ctx.execution.id);
      return {};
    }
    case 'hang':
      await new Promise<void>((resolve) => ctx.signal.addEventListener('abort', () => resolve(), { once: true }));
      return {};
    default:
      return task satisfies never;
  }
}

function say(ctx: RunContext<BenchConfig>, mark = ''): Promise<void> {
  return ctx.emit('output.text.delta', { text: `${mark}${now().toFixed(2)}\n` });
}

/** Keeps to the clock: after a late wake-up, or when it was held back, it emits all that is due. */
async function paced(ctx: RunContext<BenchConfig>, events: number, everyMs: number): Promise<void> {
  const from = now();
  for (let i = 0; i < events && !ctx.signal.aborted; i++) {
    const early = from + i * everyMs - now();
    if (early > 0) await delay(Math.max(1, early));
    await say(ctx);
  }
}

/** When an event of this provider was emitted, and whether it is one of the single ones. */
export function emittedAt(text: string): { readonly at: number; readonly probe: boolean } {
  const probe = text.startsWith('p');
  return { at: Number(probe ? text.slice(1) : text), probe };
}
