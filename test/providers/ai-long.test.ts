import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import type { HoldfastEvent } from '../../protocol/event.js';
import { aiTool } from '../../providers/ai/ai.js';
import { AiBench } from './ai-bench.js';

let bench: AiBench;
beforeAll(async () => {
  bench = await AiBench.start();
});
afterAll(() => bench.stop());

const natives = (events: readonly HoldfastEvent[], name: string) =>
  events.flatMap((event) => (event.type === 'provider.event' && event.data.name === name ? [event.data] : []));

test('100 model calls in a long conversation stay under 3 MB of history', async () => {
  // 8,000 characters an answer of a tool: 200,000 tokens in the end.
  const read = aiTool({
    description: 'Reads a page.',
    input: z.strictObject({ page: z.int() }),
    needsApproval: false,
    execute: ({ page }) => `page ${page}: ${'all work and no play. '.repeat(364)}`.slice(0, 8000),
  });
  await bench.worker({ id: 'reader', tools: { read }, limits: { maxSteps: 100, maxTokens: 100_000_000 } });
  const pages = Array.from({ length: 99 }, (_, page) => `[tool:read:{"page":${page}}]`).join('');
  const id = await bench.run(pages, 'reader');
  const events = await bench.cluster.log(id);
  expect(events.at(-1)!.type).toBe('run.completed');
  expect(natives(events, 'ai.usage')).toMatchObject([{ turns: 100, requests: 100 }]);
  const last = bench.requests(pages).at(-1)!;
  expect(JSON.stringify(last.body.messages).length).toBeGreaterThan(800_000);
  const { raw, runId } = await bench.cluster.handle(id).describe();
  expect(runId).toBeTruthy();
  const bytes = Number(raw.workflowExecutionInfo?.historySizeBytes);
  expect(bytes).toBeGreaterThan(800_000);
  expect(bytes).toBeLessThan(3_000_000);
}, 60_000);
