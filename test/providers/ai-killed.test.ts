import { afterAll, beforeAll, expect, test } from 'vitest';
import type { HoldfastEvent } from '../../protocol/event.js';
import { expectWhole, keptText, recoveries } from '../support/log-checks.js';
import { eventually } from '../support/provider-context.js';
import { AiBench, kill } from './ai-bench.js';

let bench: AiBench;
beforeAll(async () => {
  bench = await AiBench.start();
});
afterAll(() => bench.stop());

const natives = (events: readonly HoldfastEvent[], name: string) =>
  events.flatMap((event) => (event.type === 'provider.event' && event.data.name === name ? [event.data] : []));

test('kill -9: no finished call of a model or tool is repeated, and what a rule answered stays answered', async () => {
  const first = await bench.workerProcess({ policy: [{ name: 'old', tool: 'careful', answer: 'allow' }] });
  const answering = '[tool:echo:{"word":"once"}][slow:80:100]';
  const [slow, steady] = ['[tool:slow:{"word":"a"}]', '[tool:steady:{"word":"b"}]'] as const;
  const id = await bench.run(answering);
  const [slowId, steadyId] = [await bench.run(slow), await bench.run(steady)];
  const carefulId = await bench.run('[tool:careful:{"word":"c"}]');
  // Tools are running in three, and the tool of the fourth is done: its result is on the way in the second request.
  const streaming = await bench.model.waitFor(({ body }) => body.messages.at(-1)?.content === 'echo says once');
  await eventually(() => bench.runs.filter((line) => line.endsWith('begun')).length === 3);
  await kill(first);
  await eventually(() => streaming.aborted);
  await bench.worker({ policy: [{ name: 'new', tool: 'careful', answer: 'deny' }] });

  const events = await bench.cluster.log(id);
  expectWhole(events);
  expect(events.at(-1)!.type).toBe('run.completed');
  expect(recoveries(events)).toHaveLength(1);
  // The request that was cut is the only one that was made again.
  const requests = bench.requests(answering);
  expect(requests.map(({ state }) => state)).toEqual(['answered', 'aborted', 'answered']);
  expect(requests[2]!.body.messages).toEqual(requests[1]!.body.messages);
  const { finalOutput } = await bench.cluster.client.getExecution(id);
  expect(finalOutput).toBe(keptText(events));
  expect(finalOutput?.match(/word1 /g)).toHaveLength(1);

  // A tool that was running: repeated if it is idempotent, else the model is told that its outcome is unknown.
  const [ofSlow, ofSteady] = [await bench.cluster.log(slowId), await bench.cluster.log(steadyId)];
  const unknown = expect.stringContaining('outcome is unknown');
  expect(natives(ofSlow, 'ai.tool_result')).toMatchObject([{ isError: true, output: unknown }]);
  expect(natives(ofSteady, 'ai.tool_result')).toMatchObject([{ isError: false, output: 'steady b' }]);
  for (const input of [slow, steady]) expect(bench.requests(input)).toHaveLength(2);
  expect(bench.runs.filter((line) => line === 'echo once')).toHaveLength(1);
  expect(bench.runs.filter((line) => line === 'slow a begun')).toHaveLength(1);
  expect(bench.runs.filter((line) => line === 'steady b begun')).toHaveLength(2);

  // The rules of the next worker say another thing, and that is too late.
  const ofCareful = await bench.cluster.log(carefulId);
  expectWhole(ofCareful);
  expect(natives(ofCareful, 'policy.answered')).toMatchObject([{ rule: 'old', approved: true }]);
  expect(natives(ofCareful, 'ai.tool_result')).toMatchObject([{ isError: false, output: 'careful c' }]);
}, 90_000);
