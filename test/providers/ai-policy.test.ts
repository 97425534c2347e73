/** The worker's rules answer a model's calls before a person is asked, and what they answered stays answered. */
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { HoldfastEvent } from '../../protocol/event.js';
import { type AiOptions, aiProvider, aiTool } from '../../providers/ai/ai.js';
import { expectWhole } from '../support/log-checks.js';
import { scratchFolder } from '../support/scratch.js';
import { AiBench } from './ai-bench.js';
import { rig } from './ai-rig.js';

let bench: AiBench;
beforeAll(async () => {
  bench = await AiBench.start();
});
afterAll(() => bench.stop());

const policy: AiOptions['policy'] = [
  { name: 'deploys', tool: 'deploy', answer: 'allow' },
  { name: 'nothing that fails', model: 'local', tool: 'fail', answer: 'deny' },
  { name: 'echoes', tool: 'ech*', answer: 'ask' },
];

const natives = (events: readonly HoldfastEvent[], name: string) =>
  events.flatMap((event) => (event.type === 'provider.event' && event.data.name === name ? [event.data] : []));
const asked = (events: readonly HoldfastEvent[]) => events.filter(({ type }) => type === 'action.required');

async function finished(id: string): Promise<HoldfastEvent[]> {
  const events = await bench.cluster.log(id);
  expectWhole(events);
  expect(events.at(-1)!.type).toBe('run.completed');
  return events;
}

test('rules allow what needs an approval, deny also what needs none, ask about the rest, each on record', async () => {
  await bench.worker({ policy });
  const input = '[tool:deploy:{"version":"1"}][tool:fail:{}][tool:echo:{"word":"asked"}]';
  const id = await bench.run(input);
  const { id: actionId } = await bench.cluster.action(id);
  await bench.cluster.client.respond(id, actionId, { approved: true });
  const events = await finished(id);
  expect(asked(events)).toMatchObject([{ data: { payload: { tool: 'echo' } } }]);
  expect(natives(events, 'policy.answered')).toMatchObject([
    { rule: 'deploys', approved: true, toolCall: { tool: 'deploy', input: { version: '1' } } },
    { rule: 'nothing that fails', approved: false, toolCall: { tool: 'fail' } },
  ]);
  expect(natives(events, 'ai.tool_result')).toMatchObject([
    { tool: 'deploy', isError: false },
    { tool: 'fail', isError: true, output: expect.stringContaining('"nothing that fails"') },
    { tool: 'echo', isError: false, output: 'echo says asked' },
  ]);
});

test('an answer stands as long as its scope says: once, in the execution, in the conversation on another worker', async () => {
  const { client } = bench.cluster;
  const { id: conversationId } = await client.createConversation();
  const call = '[tool:echo:{"word":"again"}]';
  const turn = async (calls: number, ...scopes: string[]) => {
    const { id } = await bench.cluster.start({ providerId: 'ai', input: call.repeat(calls), conversationId });
    let last = 0;
    for (const scope of scopes) {
      const { id: actionId, sequence } = await bench.cluster.action(id, last);
      last = sequence;
      await client.respond(id, actionId, { approved: true, metadata: { scope } });
    }
    return await finished(id);
  };
  const once = await turn(3, 'once', 'execution');
  expect(asked(once)).toHaveLength(2);
  const [{ question } = {}] = natives(once, 'policy.remembered');
  expect(natives(once, 'policy.remembered')).toMatchObject([{ scope: 'execution', approved: true }]);
  expect(natives(once, 'policy.answered')).toMatchObject([{ remembered: question, approved: true }]);
  expect(natives(once, 'ai.tool_result')).toHaveLength(3);
  expect(asked(await turn(1, 'conversation'))).toHaveLength(1);
  await bench.clear();
  await bench.worker({ policy });
  const later = await turn(1);
  expect(asked(later)).toEqual([]);
  expect(natives(later, 'policy.answered')).toMatchObject([{ remembered: question, approved: true }]);
});

test('what the worker does not let stand counts once, on record', async () => {
  await bench.clear();
  await bench.worker({ policy, scopes: [] });
  const id = await bench.run('[tool:echo:{"word":"twice"}]'.repeat(2));
  let last = 0;
  for (const _ of [1, 2]) {
    const { id: actionId, sequence } = await bench.cluster.action(id, last);
    last = sequence;
    await bench.cluster.client.respond(id, actionId, { approved: true, metadata: { scope: 'execution' } });
  }
  const events = await finished(id);
  expect(natives(events, 'policy.scope_refused')).toMatchObject([{ scope: 'execution' }, { scope: 'execution' }]);
});

test('a rule that denies holds also over a person who was asked before there was one', async () => {
  await bench.clear();
  await bench.worker();
  const id = await bench.run('[tool:deploy:{"version":"late"}]');
  const { id: actionId } = await bench.cluster.action(id);
  await bench.clear();
  await bench.cluster.client.respond(id, actionId, { approved: true });
  await bench.worker({ policy: [{ name: 'freeze', tool: 'deploy', answer: 'deny' }] });
  const events = await finished(id);
  expect(natives(events, 'policy.answered')).toMatchObject([{ rule: 'freeze', approved: false }]);
  expect(bench.runs.filter((line) => line.startsWith('deploy late'))).toEqual([]);
});

test('rules go by the paths and commands in the input, relative to the workspace', async () => {
  await bench.clear();
  const workspace = scratchFolder();
  const told = (input: unknown) => `did ${JSON.stringify(input)}`;
  const tools = {
    edit: aiTool({
      description: 'Edits files.',
      input: z.strictObject({ files: z.array(z.strictObject({ path: z.string() })) }),
      needsApproval: true,
      execute: told,
    }),
    shell: aiTool({
      description: 'Runs a command.',
      input: z.strictObject({ command: z.string() }),
      needsApproval: true,
      execute: told,
    }),
  };
  const { url, apiKey } = bench.model;
  const options: Partial<AiOptions> = {
    id: 'files',
    tools,
    workspace,
    policy: [
      { name: 'sources', path: 'src', answer: 'allow' },
      { name: 'keys', path: join(workspace, 'src/keys'), answer: 'deny' },
      { name: 'tests', tool: 'shell', command: 'npm test', answer: 'allow' },
      { name: 'pushes', command: 'git push', answer: 'deny' },
    ],
  };
  const worker = await bench.cluster.worker({ providers: [rig({ url, apiKey, runs: '/dev/null', options })] });
  const edits = (...paths: string[]) => `[tool:edit:${JSON.stringify({ files: paths.map((path) => ({ path })) })}]`;
  const runs = (command: string) => `[tool:shell:${JSON.stringify({ command })}]`;
  const input = [edits('src/a', 'src/b'), edits('src/keys/a', 'src/b'), runs('npm test'), runs('sudo git push -f')];
  const id = await bench.run([...input, edits('src/a', '../b')].join(''), 'files');
  const { id: actionId } = await bench.cluster.action(id);
  await bench.cluster.client.respond(id, actionId, { approved: false });
  const events = await finished(id);
  expect(asked(events)).toHaveLength(1);
  expect(natives(events, 'policy.answered').map(({ rule, approved }) => [rule, approved])).toEqual([
    ['sources', true],
    ['keys', false],
    ['tests', true],
    ['pushes', false],
  ]);
  await worker.shutdown({ drainMs: 0 });
});

describe('a wrong rule is one clear error', () => {
  const models = { local: { provider: 'openai-compatible' as const, baseURL: 'http://127.0.0.1:1', model: 'm' } };
  const echo = aiTool({ description: '', input: z.strictObject({}), needsApproval: true, execute: () => '' });
  const mcpServers = { docs: { type: 'http' as const, url: 'http://127.0.0.1:1' } };
  const make = (rule: object, workspace?: string) => () =>
    aiProvider({
      models,
      tools: { echo },
      mcpServers,
      policy: [rule as never],
      ...(workspace === undefined ? {} : { workspace }),
    });
  test.each<[object, RegExp]>([
    [{ tool: 'ecco', answer: 'deny' }, /^aiProvider: policy\.0\.tool: there is no tool "ecco"/],
    [{ tool: 'x*', answer: 'deny' }, /policy\.0\.tool: there is no tool "x\*"/],
    [{ tool: '*o', answer: 'deny' }, /policy\.0\.tool: must be the name of a tool/],
    [{ model: 'other', answer: 'allow' }, /policy\.0\.model: "other" is not in "models"/],
    [{ path: 'src', answer: 'allow' }, /policy\.0\.path: "src" is relative, and there is no "workspace"/],
    [{ agent: 'it', answer: 'allow' }, /policy\.0: .*"agent"/],
    [{ command: 'a; b', answer: 'deny' }, /policy\.0\.command: must be plain words/],
  ])('%j', (rule, message) => {
    expect(make(rule)).toThrow(expect.objectContaining({ code: 'VALIDATION_ERROR' }));
    expect(make(rule)).toThrow(message);
  });

  test('and a right one is none', () => {
    for (const tool of ['echo', 'ec*', 'docs_search', 'docs_*', 'doc*']) make({ tool, answer: 'deny' })();
    make({ path: '/srv', answer: 'deny' })();
    make({ path: 'src', answer: 'deny' }, '/srv')();
  });
});
