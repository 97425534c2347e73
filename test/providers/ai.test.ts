import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest';
import { type LocalModel, startLocalModel } from '../../examples/local-model/server.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import type { HoldfastWorker } from '../../worker/worker.js';
import { Cluster, types } from '../support/cluster.js';
import { expectWhole, keptText, recoveries } from '../support/log-checks.js';
import { eventually } from '../support/provider-context.js';
import { rig, runsIn } from './ai-rig.js';

let cluster: Cluster;
let model: LocalModel;
let runs: string;
const workers: HoldfastWorker[] = [];
const processes: ChildProcess[] = [];

beforeAll(async () => {
  cluster = await Cluster.start();
  model = await startLocalModel();
});
beforeEach(() => {
  runs = join(mkdtempSync(join(tmpdir(), 'ai-')), 'runs');
});
afterEach(async () => {
  for (const worker of workers.splice(0)) await worker.shutdown({ drainMs: 0 });
  for (const process of processes.splice(0)) await kill(process);
});
afterAll(async () => {
  await worker();
  const compared = await cluster.compare();
  for (const worker of workers) await worker.shutdown({ drainMs: 0 });
  await cluster.stop();
  await model.stop();
  expect(compared.different).toEqual([]);
});

async function worker(options: Parameters<typeof rig>[0]['options'] = {}): Promise<HoldfastWorker> {
  const { url, apiKey } = model;
  const made = await cluster.worker({ providers: [rig({ url, apiKey, runs, options })] });
  workers.push(made);
  return made;
}

async function workerProcess(): Promise<ChildProcess> {
  const script = fileURLToPath(new URL('./ai-worker.ts', import.meta.url));
  const { url, apiKey } = model;
  const options = JSON.stringify({ url, apiKey, runs, address: cluster.server.address });
  const child = spawn(process.execPath, ['--import', 'tsx', script, options], { stdio: ['ignore', 'pipe', 'inherit'] });
  processes.push(child);
  await once(child.stdout!, 'data');
  return child;
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}

const start = async (input: string, more: object = {}) => (await cluster.start({ providerId: 'ai', input, ...more })).id;
const requestsFor = (input: string) =>
  model.requests.filter(({ body }) => body.messages.some((message) => message.content === input));
const natives = (events: readonly HoldfastEvent[], name: string) =>
  events.flatMap((event) => (event.type === 'provider.event' && event.data.name === name ? [event.data] : []));

test('text is streamed, and its usage counted', async () => {
  await worker();
  const id = await start('[say:Good morning to all of you.]');
  const events = await cluster.log(id);
  expectWhole(events);
  expect(types(events).filter((type) => type === 'output.text.delta').length).toBeGreaterThan(0);
  const execution = await cluster.client.getExecution(id);
  expect(execution).toMatchObject({ state: 'succeeded', finalOutput: 'Good morning to all of you.' });
  const [usage] = natives(events, 'ai.usage');
  expect(usage).toMatchObject({ turns: 1, requests: 1, ...execution.usage });
  expect(execution.usage?.inputTokens).toBeGreaterThan(0);
});

test('two tools in one turn run one after the other, and both results reach the model', async () => {
  await worker();
  const input = '[tool:echo:{"word":"one"}][two-tools:ls;pwd][tool:echo:{"word":"two"}]';
  const id = await start(input);
  const events = await cluster.log(id);
  expectWhole(events);
  // The model's `bash` is no tool of this worker: it is told so, twice, and goes on.
  expect(natives(events, 'ai.tool_call').map(({ tool }) => tool)).toEqual(['echo', 'bash', 'bash', 'echo']);
  expect(natives(events, 'ai.tool_result').map(({ isError }) => isError)).toEqual([false, true, true, false]);
  expect(runsIn(runs)).toEqual(['echo one', 'echo two']);
  const last = requestsFor(input).at(-1)!.body.messages;
  expect(last.filter(({ role }) => role === 'tool').map(({ content }) => content)).toEqual([
    'echo says one',
    expect.stringContaining('no tool "bash"'),
    expect.stringContaining('no tool "bash"'),
    'echo says two',
  ]);
});

test('an approval: accepted runs the tool, rejected does not, and the model hears which', async () => {
  await worker();
  for (const approved of [true, false]) {
    const input = `[tool:deploy:{"version":"1.${approved}"}]`;
    const id = await start(input);
    const { id: actionId } = await cluster.action(id);
    const { pendingActions } = await cluster.client.getExecution(id);
    expect(pendingActions[0]).toMatchObject({
      kind: 'approval',
      payload: { tool: 'deploy', input: { version: `1.${approved}` } },
    });
    await cluster.client.respond(id, actionId, { approved, ...(approved ? {} : { value: 'not on a Friday' }) });
    const events = await cluster.log(id);
    expectWhole(events);
    expect(events.at(-1)!.type).toBe('run.completed');
    const answer = requestsFor(input).at(-1)!.body.messages.at(-1)!.content;
    expect(answer).toContain(approved ? '"deployed":"1.true"' : 'not on a Friday');
    expect(requestsFor(input)).toHaveLength(2);
    expect(recoveries(events)).toEqual([]);
  }
  expect(runsIn(runs)).toEqual([expect.stringMatching(/^deploy 1.true /)]);
});

test('an approval after the worker was replaced', async () => {
  const first = await worker();
  const input = '[tool:echo:{"word":"before"}][tool:deploy:{"version":"2"}]';
  const id = await start(input);
  const { id: actionId } = await cluster.action(id);
  await first.shutdown({ drainMs: 0 });
  await cluster.client.respond(id, actionId, { approved: true });
  await worker();
  const events = await cluster.log(id);
  expectWhole(events);
  expect(events.at(-1)!.type).toBe('run.completed');
  expect(runsIn(runs)).toEqual(['echo before', expect.stringMatching(/^deploy 2 /)]);
  expect(requestsFor(input)).toHaveLength(3);
  expect(recoveries(events)).toEqual([]);
});

test('kill -9 between a tool and the next answer: no finished call is repeated', async () => {
  const first = await workerProcess();
  const input = '[tool:echo:{"word":"once"}][slow:40:100]';
  const id = await start(input);
  // The second request is under way, so the tool's result is durable.
  const streaming = await model.waitFor(({ body, deltas }) => deltas > 2 && body.messages[0]?.content === input);
  await kill(first);
  await eventually(() => streaming.aborted);
  await workerProcess();
  const events = await cluster.log(id);
  expectWhole(events);
  expect(events.at(-1)!.type).toBe('run.completed');
  expect(recoveries(events)).toHaveLength(1);
  expect(runsIn(runs)).toEqual(['echo once']);
  // One finished request for each answer; the one that was cut is the only one that was made again.
  const requests = requestsFor(input);
  expect(requests.map(({ state }) => state)).toEqual(['answered', 'aborted', 'answered']);
  expect(requests[2]!.body.messages).toEqual(requests[1]!.body.messages);
  const { finalOutput } = await cluster.client.getExecution(id);
  expect(finalOutput).toBe(keptText(events));
  expect(finalOutput?.match(/word1 /g)).toHaveLength(1);
});

test('kill -9 while tools run: the idempotent one is repeated, of the other the outcome is unknown', async () => {
  const first = await workerProcess();
  const inputs = ['[tool:slow:{"word":"a"}]', '[tool:steady:{"word":"b"}]'];
  const ids = await Promise.all(inputs.map((input) => start(input)));
  await eventually(() => runsIn(runs).length >= 2);
  await kill(first);
  await workerProcess();
  const logs = await Promise.all(ids.map((id) => cluster.log(id)));
  for (const events of logs) expect(events.at(-1)!.type).toBe('run.completed');
  expect(runsIn(runs).filter((line) => line === 'slow a begun')).toHaveLength(1);
  expect(runsIn(runs).filter((line) => line === 'steady b begun')).toHaveLength(2);
  expect(natives(logs[0]!, 'ai.tool_result').at(-1)).toMatchObject({ isError: true, output: expect.stringContaining('unknown') });
  expect(natives(logs[1]!, 'ai.tool_result').at(-1)).toMatchObject({ isError: false, output: 'steady b' });
  for (const input of inputs) expect(requestsFor(input)).toHaveLength(2);
});

test('cancel while streaming: the request is dropped, and nothing follows', async () => {
  await worker();
  const input = '[slow:100:100]';
  const id = await start(input);
  const streaming = await model.waitFor(({ body, deltas }) => deltas > 2 && body.messages[0]?.content === input);
  const began = Date.now();
  await cluster.client.cancel(id, { reason: 'enough' });
  const events = await cluster.log(id);
  expect(Date.now() - began).toBeLessThan(5000);
  expect(events.at(-1)).toMatchObject({ type: 'run.cancelled', data: { confirmation: 'cooperative' } });
  await eventually(() => streaming.aborted);
  expect(requestsFor(input)).toHaveLength(1);
});

test('100 model calls in a long conversation stay under 3 MB of history', async () => {
  // 8,000 characters an answer of a tool: 200,000 tokens in the end.
  const { z } = await import('zod');
  const { aiTool } = await import('../../providers/ai/ai.js');
  const read = aiTool({
    description: 'Reads a page.',
    input: z.strictObject({ page: z.int() }),
    needsApproval: false,
    execute: ({ page }) => `page ${page}: ${'all work and no play. '.repeat(364)}`.slice(0, 8000),
  });
  await worker({ id: 'reader', tools: { read }, limits: { maxSteps: 100, maxTokens: 100_000_000 } });
  const pages = Array.from({ length: 99 }, (_, page) => `[tool:read:{"page":${page}}]`).join('');
  const { id } = await cluster.start({ providerId: 'reader', input: pages });
  const events = await cluster.log(id);
  expect(events.at(-1)!.type).toBe('run.completed');
  expect(natives(events, 'ai.usage')).toMatchObject([{ turns: 100, requests: 100 }]);
  const last = requestsFor(pages).at(-1)!;
  expect(JSON.stringify(last.body.messages).length).toBeGreaterThan(800_000);
  const { raw, runId } = await cluster.handle(id).describe();
  expect(runId).toBeTruthy();
  const bytes = Number(raw.workflowExecutionInfo?.historySizeBytes);
  expect(bytes).toBeGreaterThan(800_000);
  expect(bytes).toBeLessThan(3_000_000);
}, 60_000);
