/**
 * A provider whose life shows outside its process, in files of a folder: one line a start, and a line every 50 ms for
 * as long as it is alive. So a test sees two of one execution act at once, whatever the log says.
 */
import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider, Recovery } from '../../providers/provider.js';

export const BEAT_MS = 50;

const configSchema = z.strictObject({
  /** How many beats it works before it completes. Not a time: a process that is frozen must not find itself done. */
  beats: z.int(),
  /** Does not hear that it should stop. */
  deaf: z.boolean().default(false),
});
type MarkingConfig = z.infer<typeof configSchema>;

export interface Mark {
  readonly what: 'start' | 'beat' | 'end' | 'stop' | 'cleanup';
  readonly pid: number;
  readonly attempt: number;
  readonly at: number;
}

/** Where the marks of one execution are, a JSON text a line. */
export function marksFile(folder: string, executionId: string): string {
  return join(folder, `${executionId}.jsonl`);
}

/** Ids: `marking-journal`, `marking-none`. It says "beat " as it goes, and "done" at its end. */
export function markingProvider(folder: string, recovery: Recovery): Provider<MarkingConfig> {
  const mark = (ctx: { execution: { id: string; attempt: number } }, what: Mark['what']): void => {
    const { id, attempt } = ctx.execution;
    const line: Mark = { what, pid: process.pid, attempt, at: Date.now() };
    appendFileSync(marksFile(folder, id), `${JSON.stringify(line)}\n`);
  };
  return {
    manifest: {
      id: `marking-${recovery}`,
      name: 'Marking',
      version: '1',
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['embedded'],
      capabilities: { 'execution.cancel': 'native' },
    },
    config: configSchema,
    recovery,
    async run(ctx) {
      mark(ctx, 'start');
      if (recovery === 'journal') await ctx.record(`attempt ${ctx.execution.attempt}`);
      for (let beat = 0; beat < ctx.config.beats; beat++) {
        if (ctx.signal.aborted && !ctx.config.deaf) {
          mark(ctx, 'stop');
          return {};
        }
        mark(ctx, 'beat');
        try {
          await ctx.emit('output.text.delta', { text: 'beat ' });
        } catch (error) {
          // Told to stop in the middle of a word.
          if (ctx.signal.aborted) mark(ctx, 'stop');
          throw error;
        }
        await delay(BEAT_MS);
      }
      mark(ctx, 'end');
      return { finalOutput: 'done' };
    },
    async cancel(ctx) {
      mark(ctx, 'cleanup');
    },
  };
}
