import { afterAll, beforeAll, expect, test } from 'vitest';
import type { HoldfastEvent } from '../../protocol/event.js';
import { types } from '../support/cluster.js';
import { expectWhole, recoveries } from '../support/log-checks.js';
import { eventually } from '../support/provider-context.js';
import { AiBench } from './ai-bench.js';
import { json, type RawModel, rawModel, rig } from './ai-rig.js';

let bench: AiBench;
beforeAll(async () => {
  bench = await AiBench.start();
  await bench.worker();
});
afterAll(() => bench.stop());

const natives = (events: readonly HoldfastEvent[], name: string) =>
  events.flatMap((event) => (event.type === 'provider.event' && event.data.name === name ? [event.data] : []));

test('text is streamed, and its usage counted', async () => {
  const id = await bench.run('[say:Good morning to all of you.]');
  const events = await bench.cluster.log(id);
  expectWhole(events);
  expect(types(events).filter((type) => type === 'output.text.delta').length).toBeGreaterThan(0);
  const execution = await bench.cluster.client.getExecution(id);
  expect(execution).toMatchObject({ state: 'succeeded', finalOutput: 'Good morning to all of you.' });
  const [usage] = natives(events, 'ai.usage');
  expect(usage).toMatchObject({ turns: 1, requests: 1, ...execution.usage });
  expect(execution.usage?.inputTokens).toBeGreaterThan(0);
});

test('two tools in one turn run one after the other, and both results reach the model', async () => {
  const input = '[tool:echo:{"word":"one"}][two-tools:ls;pwd][tool:echo:{"word":"two"}]';
  const id = await bench.run(input);
  const events = await bench.cluster.log(id);
  expectWhole(events);
  // The model's `bash` is no tool of this worker: it is told so, twice, and goes on.
  expect(natives(events, 'ai.tool_call').map(({ tool }) => tool)).toEqual(['echo', 'bash', 'bash', 'echo']);
  expect(natives(events, 'ai.tool_result').map(({ isError }) => isError)).toEqual([false, true, true, false]);
  expect(bench.runs.filter((line) => /one|two/.test(line))).toEqual(['echo one', 'echo two']);
  const last = bench.requests(input).at(-1)!.body.messages;
  expect(last.filter(({ role }) => role === 'tool').map(({ content }) => content)).toEqual([
    'echo says one',
    expect.stringContaining('no tool "bash"'),
    expect.stringContaining('no tool "bash"'),
    'echo says two',
  ]);
});

test('the second turn of a conversation holds the first', async () => {
  const { id: conversationId } = await bench.cluster.client.createConversation();
  for (const input of ['[say:My name is Ada.]', '[say:I have not forgotten.]']) {
    const { id } = await bench.cluster.start({ providerId: 'ai', input, conversationId });
    expect((await bench.cluster.log(id)).at(-1)!.type).toBe('run.completed');
  }
  const [request] = bench.requests('[say:I have not forgotten.]');
  expect(request!.body.messages).toEqual([
    { role: 'user', content: '[say:My name is Ada.]' },
    { role: 'assistant', content: 'My name is Ada.' },
    { role: 'user', content: '[say:I have not forgotten.]' },
  ]);
});

test('an approval: accepted runs the tool, rejected does not, and the model hears which', async () => {
  for (const approved of [true, false]) {
    const input = `[tool:deploy:{"version":"1.${approved}"}]`;
    const id = await bench.run(input);
    const { id: actionId } = await bench.cluster.action(id);
    const { pendingActions } = await bench.cluster.client.getExecution(id);
    expect(pendingActions[0]).toMatchObject({
      kind: 'approval',
      payload: { tool: 'deploy', input: { version: `1.${approved}` } },
    });
    await bench.cluster.client.respond(id, actionId, { approved, ...(approved ? {} : { value: 'not on a Friday' }) });
    const events = await bench.cluster.log(id);
    expectWhole(events);
    expect(events.at(-1)!.type).toBe('run.completed');
    const answer = bench.requests(input).at(-1)!.body.messages.at(-1)!.content;
    expect(answer).toContain(approved ? '"deployed":"1.true"' : 'not on a Friday');
    expect(bench.requests(input)).toHaveLength(2);
    expect(recoveries(events)).toEqual([]);
  }
  expect(bench.runs.filter((line) => line.startsWith('deploy 1'))).toHaveLength(1);
});

test('an approval after the worker was replaced', async () => {
  const input = '[tool:echo:{"word":"before"}][tool:deploy:{"version":"2"}]';
  const id = await bench.run(input);
  const { id: actionId } = await bench.cluster.action(id);
  await bench.clear();
  await bench.cluster.client.respond(id, actionId, { approved: true });
  await bench.worker();
  const events = await bench.cluster.log(id);
  expectWhole(events);
  expect(events.at(-1)!.type).toBe('run.completed');
  expect(bench.runs.filter((line) => /before|deploy 2/.test(line))).toEqual([
    'echo before',
    expect.stringMatching(/^deploy 2 /),
  ]);
  expect(bench.requests(input)).toHaveLength(3);
  expect(recoveries(events)).toEqual([]);
});

test('cancel while streaming: the request is dropped, and nothing follows', async () => {
  const input = '[slow:100:100]';
  const id = await bench.run(input);
  const streaming = await bench.model.waitFor(
    ({ body, deltas }) => deltas > 2 && body.messages.at(-1)?.content === input,
  );
  const began = Date.now();
  await bench.cluster.client.cancel(id, 'enough');
  const events = await bench.cluster.log(id);
  expect(Date.now() - began).toBeLessThan(5000);
  expect(events.at(-1)).toMatchObject({ type: 'run.cancelled', data: { confirmation: 'cooperative' } });
  await eventually(() => streaming.aborted);
  expect(bench.requests(input)).toHaveLength(1);
});

test('what was used before a cancel is the usage of what was cancelled', async () => {
  const input = '[tool:echo:{"word":"used"}][slow:100:100]';
  const id = await bench.run(input);
  await bench.model.waitFor(({ body, deltas }) => deltas > 2 && body.messages.at(-1)?.content === 'echo says used');
  await bench.cluster.client.cancel(id);
  const events = await bench.cluster.log(id);
  const [first] = natives(events, 'ai.turn');
  const usage = { inputTokens: first?.inputTokens, outputTokens: first?.outputTokens };
  expect(usage.inputTokens).toBeGreaterThan(0);
  expect(events.at(-1)).toMatchObject({ type: 'run.cancelled', data: { usage } });
  expect((await bench.cluster.client.getExecution(id)).usage).toEqual(usage);
});

test('a key that the model repeats in its errors is in no event, error, log or history', async () => {
  const model: RawModel = await rawModel((response, body, request) => {
    const message = `bad header ${request.headers.authorization}`;
    json(model.bodies.length === 1 ? 500 : 401, { error: { message } })(response, body, request);
  });
  const logged: unknown[] = [];
  const options = { id: 'echoing', limits: { maxRetryWaitMs: 100 } };
  const worker = await bench.cluster.worker({
    providers: [rig({ ...model, runs: '/dev/null', options })],
    log: (...line) => logged.push(line),
  });
  const id = await bench.run('hello', 'echoing');
  const events = await bench.cluster.log(id);
  const { error } = await bench.cluster.client.getExecution(id);
  expect(error?.message).toContain('bad header Bearer [redacted]');
  expect(natives(events, 'ai.retry')).toHaveLength(1);
  const history = decoded(await bench.cluster.handle(id).fetchHistory());
  expect(history.includes('bad header Bearer [redacted]')).toBe(true);
  for (const shown of [JSON.stringify([events, error, logged]), history])
    expect(shown.includes(model.apiKey)).toBe(false);
  await worker.shutdown({ drainMs: 0 });
  await model.stop();
});

/** All of it as text, payloads too. */
function decoded(history: unknown): string {
  const json = JSON.stringify(history);
  const payloads = [...json.matchAll(/"data":"([A-Za-z0-9+/=]+)"/g)];
  return [json, ...payloads.map(([, data = '']) => Buffer.from(data, 'base64').toString())].join('\n');
}
