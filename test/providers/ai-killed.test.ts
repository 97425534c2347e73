import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import type { HoldfastEvent } from '../../protocol/event.js';
import { expectWhole, keptText, recoveries } from '../support/log-checks.js';
import { eventually } from '../support/provider-context.js';
import { AiBench, kill } from './ai-bench.js';

let bench: AiBench;
beforeAll(async () => {
  bench = await AiBench.start();
});
beforeEach(() => bench.newRuns());
afterEach(() => bench.clear());
afterAll(() => bench.stop());

const natives = (events: readonly HoldfastEvent[], name: string) =>
  events.flatMap((event) => (event.type === 'provider.event' && event.data.name === name ? [event.data] : []));

test('kill -9 between a tool and the next answer: no finished call is repeated', async () => {
  const first = await bench.workerProcess();
  const input = '[tool:echo:{"word":"once"}][slow:40:100]';
  const id = await bench.run(input);
  // The second request is under way, so the tool's result is durable.
  const streaming = await bench.model.waitFor(
    ({ body, deltas }) => deltas > 2 && body.messages.at(-1)?.content === 'echo says once',
  );
  await kill(first);
  await eventually(() => streaming.aborted);
  await bench.workerProcess();
  const events = await bench.cluster.log(id);
  expectWhole(events);
  expect(events.at(-1)!.type).toBe('run.completed');
  expect(recoveries(events)).toHaveLength(1);
  expect(bench.runs).toEqual(['echo once']);
  // One finished request for each answer; the one that was cut is the only one that was made again.
  const requests = bench.requests(input);
  expect(requests.map(({ state }) => state)).toEqual(['answered', 'aborted', 'answered']);
  expect(requests[2]!.body.messages).toEqual(requests[1]!.body.messages);
  const { finalOutput } = await bench.cluster.client.getExecution(id);
  expect(finalOutput).toBe(keptText(events));
  expect(finalOutput?.match(/word1 /g)).toHaveLength(1);
});

test('kill -9 while tools run: the idempotent one is repeated, of the other the outcome is unknown', async () => {
  const first = await bench.workerProcess();
  const inputs = ['[tool:slow:{"word":"a"}]', '[tool:steady:{"word":"b"}]'];
  const ids = await Promise.all(inputs.map((input) => bench.run(input)));
  await eventually(() => bench.runs.filter((line) => line.endsWith('begun')).length === 2);
  await kill(first);
  await bench.workerProcess();
  const logs = await Promise.all(ids.map((id) => bench.cluster.log(id)));
  for (const events of logs) expect(events.at(-1)!.type).toBe('run.completed');
  expect(bench.runs.filter((line) => line === 'slow a begun')).toHaveLength(1);
  expect(bench.runs.filter((line) => line === 'steady b begun')).toHaveLength(2);
  expect(natives(logs[0]!, 'ai.tool_result').at(-1)).toMatchObject({
    isError: true,
    output: expect.stringContaining('unknown'),
  });
  expect(natives(logs[1]!, 'ai.tool_result').at(-1)).toMatchObject({ isError: false, output: 'steady b' });
  for (const input of inputs) expect(bench.requests(input)).toHaveLength(2);
});
