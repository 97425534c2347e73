/** No way of writing an input hides from the rules what it runs, or where. */
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { callFacts } from '../../providers/ai/call-policy.js';
import { deadRule, resolveOptions } from '../../providers/ai/options.js';
import { aiTool, runnableTool } from '../../providers/ai/tool.js';
import { decideAll } from '../../providers/policy/decide.js';
import { Policy } from '../../providers/policy/policy.js';
import type { Scope } from '../../providers/policy/remembered.js';
import { type ModelPolicyRule, modelPolicySchema, rulesOf } from '../../providers/policy/rules.js';
import { scratchFolder } from '../support/scratch.js';

const root = scratchFolder();
type Input = Parameters<typeof callFacts>[0]['input'];

async function says(
  list: ModelPolicyRule[],
  input: Input,
  parsed: unknown = input,
  workspace: string | undefined = root,
) {
  const facts = callFacts({ model: 'm', tool: 'read', workspace, input, parsed });
  return (await decideAll(rulesOf(modelPolicySchema.parse(list)), facts, workspace))?.answer;
}

describe('commands', () => {
  const list: ModelPolicyRule[] = [
    { command: 'npm test', answer: 'allow' },
    { command: 'git push', answer: 'deny' },
  ];

  test.each<[Input]>([
    [{ command: 'npm test', cmd: 'git push' }],
    [{ command: '', cmd: 'git push' }],
    [{ command: ['git'], args: ['push'] }],
    [{ command: 'git', args: 'push' }],
    [{ command: '', args: ['git', 'push'] }],
    [{ command: ['git', 'push', 1] }],
    [{ input: { command: 'git push' } }],
    [{ command: 'npm test', steps: [[{ cmd: 'git push' }]] }],
  ])('%j is denied wherever the second one stands', async (input) => expect(await says(list, input)).toBe('deny'));

  test.each<[Input, string | undefined]>([
    [{ command: 'npm test', cmd: 'npm test' }, 'allow'],
    [{ command: 'npm', args: ['test'], input: { command: ['npm', 'test'] } }, 'allow'],
    [{ command: ['npm'], args: ['test', '--', 'x'] }, 'allow'],
    [{ command: 'npm test', cmd: 'npm test x' }, undefined],
    [{ command: 'npm test', cmd: {} }, undefined],
    [{ command: 'npm test', cmd: null }, 'allow'],
  ])('%j is %s: the same twice is one, and different ones are never allowed', async (input, answer) =>
    expect(await says(list, input)).toBe(answer),
  );
});

describe('places', () => {
  const list: ModelPolicyRule[] = [
    { tool: 'read*', answer: 'allow' },
    { path: '/etc', answer: 'deny' },
  ];

  test.each<[Input, string]>([
    [{ paths: [['/etc/passwd']] }, 'deny'],
    [{ edits: [[{ path: '/etc/passwd' }]] }, 'deny'],
    [{ 'file-path': '/etc/passwd' }, 'deny'],
    [{ uri: '/etc/passwd' }, 'deny'],
    [{ url: 'FILE:///etc/passwd' }, 'deny'],
    [{ path: { name: '/etc/passwd' } }, 'ask'],
    [{ files: [{ name: '/etc/passwd' }] }, 'ask'],
    [{ path: 7 }, 'ask'],
    [{ a: { b: { c: { d: { e: { path: '/etc/passwd' } } } } } }, 'ask'],
    [{ a: [[[[[['/etc/passwd']]]]]] }, 'ask'],
    [{ path: '~someone/x' }, 'ask'],

    [{ url: 'xy:/../../../etc/passwd' }, 'ask'],
    [{ path: 'a', text: '/etc/passwd' }, 'allow'],
    [{ path: null }, 'allow'],
    [{ url: 'https://example.test/x' }, 'allow'],
    [{ files: [{ path: 'a', text: 'x' }] }, 'allow'],
  ])('%j: %s', async (input, answer) => expect(await says(list, input)).toBe(answer));

  test('a relative path without a workspace may be anywhere', async () => {
    const facts = callFacts({ model: 'm', tool: 'read', workspace: undefined, input: { path: 'x' }, parsed: {} });
    expect((await decideAll(rulesOf(modelPolicySchema.parse(list)), facts, undefined))?.answer).toBe('ask');
  });
});

describe('what a schema makes of an input', () => {
  const list: ModelPolicyRule[] = [
    { command: 'npm test', answer: 'allow' },
    { command: 'git push', answer: 'deny' },
    { path: '/etc', answer: 'deny' },
    { path: 'src', answer: 'allow' },
  ];
  const made = async (schema: z.ZodType, input: Input) => {
    const tool = runnableTool('t', aiTool({ description: '', input: schema, needsApproval: true, execute: () => '' }));
    return await says(list, input, await tool.parsed(input));
  };

  test('is judged like what was sent', async () => {
    const word = z.string();
    expect(await made(z.object({ command: word.default('git push') }), {})).toBe('deny');
    expect(await made(z.object({ path: word.trim() }), { path: '  /etc/passwd' })).toBe('deny');
    expect(await made(z.object({ path: word.overwrite(() => 'src/a') }), { path: '/etc/passwd' })).toBe('deny');
    expect(
      await made(z.object({ command: word.overwrite((it) => `${it}; ls`) }), { command: 'npm test' }),
    ).toBeUndefined();
    expect(await made(z.object({ path: word, cwd: word.default('src') }), { path: 'src/a' })).toBe('allow');
    expect(
      await made(
        z.object({ path: word }).transform(({ path }) => new Map([['path', path]])),
        { path: 'src/a' },
      ),
    ).toBe('ask');
    expect(
      await made(
        z.object({ line: word }).transform(({ line }) => line),
        { line: 'git push' },
      ),
    ).toBe('deny');
  });
});

describe('an answer of before', () => {
  test.each<[Scope[], string | undefined]>([
    [['execution', 'conversation'], 'allow'],
    [['conversation'], 'allow'],
    [['execution'], undefined],
    [[], undefined],
  ])('of the conversation, where the worker lets %j stand: %s', async (scopes, answer) => {
    const remembered = (_: string, scope: Scope) => (scope === 'conversation' ? true : undefined);
    const policy = new Policy({ rules: [], workspace: root, scopes, remembered });
    expect((await policy.verdict([{ source: 'm', paths: [] }], 'q'))?.answer).toBe(answer);
  });

  test('of the execution does not stand where only those of conversations do', async () => {
    const remembered = (_: string, scope: Scope) => (scope === 'execution' ? true : undefined);
    const policy = new Policy({ rules: [], workspace: root, scopes: ['conversation'], remembered });
    expect(await policy.verdict([{ source: 'm', paths: [] }], 'q')).toBeUndefined();
  });
});

describe('a rule that could never match', () => {
  const options = (tool: string) =>
    resolveOptions({
      models: { m: { provider: 'openai-compatible', baseURL: 'http://127.0.0.1:1', model: 'm' } },
      mcpServers: {
        docs: { type: 'http', url: 'http://127.0.0.1:1' },
        notes: { type: 'http', url: 'http://127.0.0.1:1' },
      },
      policy: [{ name: 'it', tool, answer: 'deny' }],
    });

  test('for its name is refused when the provider is made', () => {
    for (const tool of ['docs_delete.all', 'docs_ü', `docs_${'x'.repeat(64)}`])
      expect(() => options(tool)).toThrow(/policy\.0\.tool: must be the name of a tool as the model knows it/);
  });

  test('for there is no such tool is told when the server tells its tools', () => {
    const servers = new Map([['docs', ['docs_delete_all', 'docs_get']]]);
    expect(deadRule(options('docs_delete'), servers)).toBe(
      'the rule "it" is about "docs_delete", and MCP server "docs" has no such tool; it has: docs_delete_all, docs_get',
    );
    expect(deadRule(options('docs_remove*'), servers)).toMatch(/"docs_remove\*"/);
    // The last may be about the other server, which this run does not use.
    for (const tool of ['docs_delete_all', 'docs_del*', 'do*', 'notes_x'])
      expect([tool, deadRule(options(tool), servers)]).toEqual([tool, undefined]);
  });
});
