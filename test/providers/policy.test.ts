/** Rules answer what they are sure of, deny wins, and everything else is for a person. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import type { ActionResponse } from '../../protocol/action.js';
import type { Json } from '../../protocol/json.js';
import { acpProvider } from '../../providers/acp/acp.js';
import { decide, type ToolFacts } from '../../providers/policy/decide.js';
import { Places } from '../../providers/policy/facts.js';
import {
  type ModelPolicyRule,
  modelPolicySchema,
  type PolicyRule,
  policySchema,
  rulesOf,
} from '../../providers/policy/rules.js';
import { commandLine } from '../../providers/policy/words.js';
import { agentScript } from '../support/acp-agents.js';
import { testContext } from '../support/provider-context.js';
import { scratchFolder } from '../support/scratch.js';

const rules = (...list: PolicyRule[]) => rulesOf(policySchema.parse(list));

describe('a command line', () => {
  test.each([
    ['npm test', ['npm', 'test']],
    ['  npm   run\tbuild  ', ['npm', 'run', 'build']],
    [`git commit -m 'one (two) $x'`, ['git', 'commit', '-m', 'one (two) $x']],
    ['grep "a b" src/x.ts', ['grep', 'a b', 'src/x.ts']],
    [`echo ''`, ['echo', '']],
    ['make all=yes', ['make', 'all=yes']],
    ['cat naïve.txt', ['cat', 'naïve.txt']],
  ])('%j is plain words', (line, words) => expect(commandLine(line)).toMatchObject({ kind: 'plain', words }));

  test.each([
    'npm test && rm -rf /',
    'npm test; rm x',
    'npm test | sh',
    'npm test &',
    'npm test\nrm x',
    'npm test\rrm x',
    'npm test > out',
    'npm test < in',
    'npm test 2>&1',
    'npm test $(rm x)',
    'npm test `rm x`',
    'npm test "`rm x`"',
    'npm test "$(rm x)"',
    'npm test $HOME',
    "npm test $'x'",
    'npm test <(rm x)',
    '(npm test)',
    '{ npm test; }',
    'npm test {a,b}',
    'npm test *.ts',
    'npm test a?c',
    'npm test [ab]',
    'npm test ~/x',
    'npm test # rm',
    'npm test \\; rm',
    'npm test !!',
    'A=1 npm test',
    'npm "test',
    "npm 'test",
    'npm test\0',
    '',
    '   ',
    `npm ${'x'.repeat(20_000)}`,
  ])('%j is more than plain words', (line) => expect(commandLine(line).kind).toBe('compound'));

  test('that no shell sees is its words, and a shell with a script is its script', () => {
    expect(commandLine(['npm', 'test', '&&'])).toMatchObject({ kind: 'plain', words: ['npm', 'test', '&&'] });
    for (const shell of ['sh', 'bash', '/bin/bash', '/usr/bin/zsh'])
      for (const read of [commandLine([shell, '-lc', 'npm test']), commandLine(`${shell} -lc 'npm test'`)])
        expect(read).toMatchObject({ kind: 'plain', words: ['npm', 'test'] });
    expect(commandLine([]).kind).toBe('compound');
    expect(commandLine(['npm', 'x'.repeat(20_000)]).kind).toBe('compound');
  });

  test.each<[string | string[]]>([
    [['bash', '-lc', 'npm test; rm x']],
    [['bash', '-c', 'npm "$1"', 'x', 'y']],
    ['bash -lc "npm test; rm x"'],
    ['bash --norc -c "npm test"'],
    [['/tmp/bash', '-c', 'npm test']],
    [['bash', '-c', `bash -c "sh -c 'npm test | sh'"`]],
    ['sudo sh -c "npm test"'],
    ['eval "npm test; rm x"'],
    [['npm test']],
    [['npm test; rm x', 'y']],
  ])('that a shell would look into, %j, is more than plain words', (line) => {
    expect(commandLine(line).kind).toBe('compound');
  });

  test('that is plain has no character with which a shell does more', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...`ab '"$\`\\;&|<>(){}*?[]~#!\n=`), maxLength: 12 }), (line) => {
        const read = commandLine(line);
        const bare = line.replaceAll(/'[^']*'|"[^"]*"/g, '');
        if (read.kind === 'plain') expect(bare).not.toMatch(/[$`\\;&|<>(){}*?[\]~#!\n'"]/);
      }),
      { numRuns: 2000 },
    );
  });
});

describe('a decision', () => {
  let workspace: string;
  const outside = scratchFolder();
  beforeAll(() => {
    workspace = scratchFolder();
    mkdirSync(join(workspace, 'src'));
    mkdirSync(join(workspace, 'secrets'));
    writeFileSync(join(workspace, 'secrets', 'key'), 'x');
    symlinkSync(outside, join(workspace, 'src', 'out'));
    symlinkSync(join(workspace, 'secrets'), join(workspace, 'src', 'in'));
    symlinkSync(join(workspace, 'nowhere'), join(workspace, 'src', 'nothing'));
    symlinkSync('loop', join(workspace, 'src', 'loop'));
  });

  const answer = async (
    list: PolicyRule[],
    facts: Partial<Omit<ToolFacts, 'command'>> & { run?: string | string[] },
  ) => {
    const { run, paths = [], ...rest } = facts;
    const command = run === undefined ? {} : { command: commandLine(run) };
    const given = {
      source: 'it',
      isKind: true,
      ...rest,
      ...command,
      paths: paths.map((path) => join(workspace, path)),
    };
    return (await decide(rules(...list), given, workspace))?.answer;
  };
  const edit = (...paths: string[]) => ({ tool: 'edit', paths });
  const run = (command: string | string[]) => ({ tool: 'execute', run: command });

  test('is none without a rule that fits', async () => {
    expect(await answer([], edit('src/a'))).toBeUndefined();
    expect(await answer([{ agent: 'other', answer: 'allow' }], edit('src/a'))).toBeUndefined();
    expect(await answer([{ tool: 'read', answer: 'allow' }], edit('src/a'))).toBeUndefined();
    expect(await answer([{ tool: 'edit', answer: 'allow' }], { paths: ['src/a'] })).toBeUndefined();
  });

  test('denies before it asks, and asks before it allows, in whatever order the rules stand', async () => {
    const allow: PolicyRule = { tool: 'edit', answer: 'allow' };
    const ask: PolicyRule = { path: 'src', answer: 'ask' };
    const deny: PolicyRule = { path: 'src/a', answer: 'deny' };
    for (const list of [
      [allow, ask, deny],
      [deny, ask, allow],
      [ask, deny, allow],
    ]) {
      expect(await answer(list, edit('src/a'))).toBe('deny');
      expect(await answer(list, edit('src/b'))).toBe('ask');
      expect(await answer(list, edit('c'))).toBe('allow');
    }
  });

  test('about commands goes by words, not by letters', async () => {
    const list: PolicyRule[] = [{ command: 'npm test', answer: 'allow' }];
    expect(await answer(list, run('npm test'))).toBe('allow');
    expect(await answer(list, run('npm test -- --watch=no'))).toBe('allow');
    expect(await answer(list, run(['bash', '-lc', 'npm test']))).toBe('allow');
    for (const other of ['npm testing', 'npm', 'npx test', 'npm run test', '/tmp/npm test'])
      expect([other, await answer(list, run(other))]).toEqual([other, undefined]);
  });

  test('never allows more than plain words, whatever the rule', async () => {
    for (const rule of [{ command: 'npm test' }, { tool: 'execute' as const }, {}])
      for (const more of ['npm test; rm x', 'npm test $(rm x)', 'npm test\nrm x', 'npm test > /etc/x'])
        expect([more, await answer([{ ...rule, answer: 'allow' }], run(more))]).toEqual([more, undefined]);
    expect(await answer([{ tool: 'execute', answer: 'allow' }], { tool: 'execute' })).toBeUndefined();
  });

  test('denies a command also where it stands in the middle', async () => {
    const list: PolicyRule[] = [{ command: 'rm', answer: 'deny' }, { answer: 'allow' }];
    for (const line of ['rm x', 'ls && rm x', 'ls; rm x', 'ls\nrm x', 'A=1 rm x', 'ls | (rm x)'])
      expect([line, await answer(list, run(line))]).toEqual([line, 'deny']);
    expect(await answer(list, run('ls rm'))).toBe('allow');
  });

  test('denies a command by whatever it is started, wherever it lies', async () => {
    const list: PolicyRule[] = [{ command: 'rm', answer: 'deny' }, { answer: 'allow' }];
    const lines = ['/bin/rm x', 'sudo rm x', 'sudo -u root rm x', 'env A=1 rm x', 'command rm x', 'timeout 5 rm x'];
    lines.push('find . -exec rm x', 'xargs -n 1 rm', 'bash -c "rm x"', 'bash --norc -c "ls; /bin/rm x"', 'eval "rm x"');
    lines.push(
      'env -S "rm x"',
      'echo `rm x`',
      'echo "$(rm x)"',
      '{ rm x; }',
      'if ls; then rm x; fi',
      '"r"m x',
      'r\\m x',
    );
    const words = [
      ['rm -r x'],
      ['env', 'bash', '-c', 'rm x'],
      ['/opt/bash', '-l', '-c', 'rm x'],
      ['busybox', 'rm', 'x'],
    ];
    for (const each of [...lines, ...words]) expect([each, await answer(list, run(each))]).toEqual([each, 'deny']);
    for (const other of ['sudo rmdir x', 'timeout 5 ls', 'bash -c "ls rm"'])
      expect([other, await answer(list, run(other))]).toEqual([other, 'allow']);
    // A rule about a shell is one about its scripts too, and a tool of any name that brings a command is run.
    expect(await answer([{ command: 'bash', answer: 'deny' }, { answer: 'allow' }], run('bash -c ls'))).toBe('deny');
    const noRuns: PolicyRule[] = [{ tool: 'execute', answer: 'deny' }, { answer: 'allow' }];
    expect(await answer(noRuns, { tool: 'other', run: 'ls' })).toBe('deny');
  });

  test('denies a subcommand also behind options, and allows it only where it was named', async () => {
    const list: PolicyRule[] = [{ command: 'git push', answer: 'deny' }, { answer: 'allow' }];
    for (const line of ['git push', 'git -C /x push', 'git -c a=b --no-pager push -f', 'sudo git --git-dir=x push'])
      expect([line, await answer(list, run(line))]).toEqual([line, 'deny']);
    for (const line of ['git log push', 'git stash push', 'git -C x log'])
      expect([line, await answer(list, run(line))]).toEqual([line, 'allow']);
    const narrow: PolicyRule[] = [{ command: 'git log', answer: 'allow' }];
    for (const line of ['git -c core.pager=x log', '/tmp/git log', 'sudo git log', 'env git log', 'A=1 git log'])
      expect([line, await answer(narrow, run(line))]).toEqual([line, undefined]);
  });

  test('of a hostile command takes no time', async () => {
    const list: PolicyRule[] = Array.from({ length: 100 }, () => ({ command: 'git push a b', answer: 'deny' }));
    const began = performance.now();
    for (const line of [
      'git - '.repeat(1600),
      `sudo ${'git - push '.repeat(900)}`,
      '$(`"'.repeat(2400),
      'sh "'.repeat(2400),
    ])
      await answer(list, run(line));
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  test('allows files only where they really are', async () => {
    const list: PolicyRule[] = [{ path: 'src', answer: 'allow' }];
    expect(await answer(list, edit('src/a'))).toBe('allow');
    expect(await answer(list, edit('src/new/deep/file'))).toBe('allow');
    expect(await answer(list, edit('src'))).toBe('allow');
    for (const path of ['srcs/a', 'src/../secrets/key', 'src/out/x', 'src/in/key', 'src/nothing', 'src/loop/x', '../x'])
      expect([path, await answer(list, edit(path))]).toEqual([path, undefined]);
    expect(await answer(list, edit('src/a', 'secrets/key'))).toBeUndefined();
    expect(await answer(list, edit())).toBeUndefined();
    // A rule about files says nothing of commands.
    expect(await answer(list, { ...run('npm test'), paths: ['src'] })).toBeUndefined();
  });

  test('never allows what lies outside of the workspace, unless a rule names that place', async () => {
    const tool: PolicyRule[] = [{ tool: 'edit', answer: 'allow' }];
    expect(await answer(tool, edit('a'))).toBe('allow');
    for (const path of ['../a', 'src/out/a']) expect([path, await answer(tool, edit(path))]).toEqual([path, undefined]);
    expect(await answer([{ path: outside, answer: 'allow' }], { ...edit(), paths: ['../'] })).toBeUndefined();
    const facts = { source: 'it', isKind: true, tool: 'edit', paths: [join(outside, 'a')] };
    expect((await decide(rules({ path: outside, answer: 'allow' }), facts, workspace))?.answer).toBe('allow');
  });

  test('denies a file by whatever way it is reached', async () => {
    const list: PolicyRule[] = [{ path: 'secrets', answer: 'deny' }, { answer: 'allow' }];
    for (const path of ['secrets/key', 'src/in/key', 'src/in'])
      expect([path, await answer(list, edit(path))]).toEqual([path, 'deny']);
    expect(await answer(list, edit('src/a', 'secrets/key'))).toBe('deny');
  });
});

describe('without a workspace', () => {
  const says = async (list: ModelPolicyRule[], tool: string, input: Record<string, unknown>) => {
    const places = new Places(undefined);
    places.addFields(input);
    const facts = { source: 'm', tool, paths: [...places.paths], hasUnknownPlace: places.hasUnknown };
    return (await decide(rulesOf(modelPolicySchema.parse(list)), facts, undefined))?.answer;
  };

  test('a rule that allows a tool leaves paths to it, and one that allows a path is sure of it', async () => {
    expect(await says([{ tool: 'mail', answer: 'allow' }], 'mail', { to: 'ada', file: '/etc/passwd' })).toBe('allow');
    const site: ModelPolicyRule[] = [{ path: '/srv/site', answer: 'allow' }];
    expect(await says(site, 'write', { path: '/srv/site/a' })).toBe('allow');
    for (const input of [{ path: 'srv/site/a' }, { path: '/srv/site/../a' }, { path: '~/a' }, {}, { text: 'x' }])
      expect([input, await says(site, 'write', input)]).toEqual([input, undefined]);
  });

  test('a rule that denies a path finds it wherever it stands, also in objects and lists', async () => {
    const keys: ModelPolicyRule[] = [{ path: '/srv/keys', answer: 'deny' }, { answer: 'allow' }];
    for (const input of [
      { path: '/srv/keys' },
      { files: ['/srv/a', '/srv/keys/b'] },
      { edits: [{ old_path: '/srv/a' }, { target: '/srv/keys/b' }] },
      { change: { moves: [{ from: '/srv/keys/a', to: '/srv/b' }] } },
      { url: 'file:///srv/keys/a' },
    ])
      expect([input, await says(keys, 'any', input)]).toEqual([input, 'deny']);
    expect(await says(keys, 'any', { path: '/srv/keyboard', text: '/srv/keys/a' })).toBe('allow');
  });

  test('a tool is known by its name, or by the beginning of it', async () => {
    const list: ModelPolicyRule[] = [
      { tool: 'docs_*', answer: 'allow' },
      { tool: 'docs_delete_*', answer: 'deny' },
      { model: 'other', answer: 'deny' },
    ];
    expect(await says(list, 'docs_search', {})).toBe('allow');
    expect(await says(list, 'docs_delete_all', {})).toBe('deny');
    expect(await says(list, 'docs', {})).toBeUndefined();
    // A kind of tool is nothing for a model: here it is a name like any other.
    expect(await says([{ tool: 'read', answer: 'allow' }], 'read', {})).toBe('allow');
  });
});

describe('a wrong rule is one clear error', () => {
  const it = { command: process.execPath, cwd: '/' };
  test.each<[Record<string, Json>, RegExp]>([
    [{ command: 'npm test && x', answer: 'allow' }, /^acpProvider: policy\.0\.command: must be plain words[^;]*$/],
    [{ command: '', answer: 'deny' }, /policy\.0\.command: must be plain words/],
    [{ path: '../x', answer: 'allow' }, /policy\.0\.path: must not hold "\.\."/],
    [{ path: '', answer: 'allow' }, /policy\.0\.path: must not be empty/],
    [{ tool: 'shell', answer: 'allow' }, /policy\.0\.tool: .*"execute"/],
    [{ agent: 'nobody', answer: 'allow' }, /policy\.0\.agent: "nobody" is not in "agents"/],
    [{ command: 'ls', path: 'src', answer: 'allow' }, /policy\.0: has both "command" and "path"/],
    [{ command: 'ls', tool: 'edit', answer: 'allow' }, /policy\.0: .*"execute" only/],
    [{ tool: 'edit', answer: 'yes' }, /policy\.0\.answer/],
    [{ tools: 'edit', answer: 'allow' }, /policy\.0: .*"tools"/],
    [{ tool: 'edit' }, /policy\.0\.answer/],
  ])('%j', (rule, message) => {
    const make = () => acpProvider({ agents: { it }, policy: [rule as unknown as PolicyRule] });
    expect(make).toThrow(expect.objectContaining({ code: 'VALIDATION_ERROR' }));
    expect(make).toThrow(message);
  });
});

describe('an agent that asks', () => {
  const edits = (path: string) => ({ title: `edit ${path}`, kind: 'edit', locations: [{ path }] });
  const runs = (command: string) => ({ title: command, kind: 'execute', rawInput: { command } });

  function asking(policy: PolicyRule[], more: Partial<Parameters<typeof acpProvider>[0]> = {}) {
    const it = { command: process.execPath, args: [agentScript('polite'), 'ask_each'], cwd: scratchFolder() };
    const provider = acpProvider({ agents: { it }, policy, ...more });
    let session: Json | undefined;
    return async (toolCalls: Json[], response?: ActionResponse) => {
      const ctx = testContext(provider, {
        input: JSON.stringify(toolCalls),
        ...(session === undefined ? {} : { session }),
        answer: () => response,
      });
      await provider.run(ctx);
      session = ctx.sessions.at(-1);
      return { said: ctx.text.trim().split(' '), asked: ctx.actions.map(({ title }) => title), ctx };
    };
  }

  test('is answered by the rules, each on record; a person is asked about the rest', async () => {
    const turn = asking([
      { name: 'sources', path: 'src', answer: 'allow' },
      { command: 'npm test', answer: 'allow' },
      { command: 'git push', answer: 'deny' },
    ]);
    const { said, asked, ctx } = await turn(
      [edits('src/a'), runs('npm test'), runs('npm test; ls'), runs('git push origin'), edits('/etc/passwd')],
      { approved: true },
    );
    expect(said).toEqual(['once', 'once', 'once', 'no', 'once']);
    expect(asked).toEqual(['npm test; ls', 'edit /etc/passwd']);
    expect(ctx.native('policy.answered')).toMatchObject([
      { rule: 'sources', approved: true, optionId: 'once', toolCall: { title: 'edit src/a' } },
      { rule: 'policy.1', approved: true, toolCall: { title: 'npm test' } },
      { rule: 'policy.2', approved: false, optionId: 'no', toolCall: { title: 'git push origin' } },
    ]);
  });

  test('is not asked again in the execution, or in the conversation, where the answer says so', async () => {
    const turn = asking([]);
    const same = runs('make');
    const for_ = (scope: string, approved = true) => ({ approved, metadata: { scope } });
    expect((await turn([same, same], for_('once'))).asked).toEqual(['make', 'make']);
    const once = await turn([same, same, runs('make all')], for_('execution'));
    expect([once.said, once.asked]).toEqual([
      ['once', 'once', 'once'],
      ['make', 'make all'],
    ]);
    expect(once.ctx.native('policy.remembered')).toMatchObject([{ scope: 'execution', approved: true }, {}]);
    expect(once.ctx.native('policy.answered')).toMatchObject([{ remembered: expect.any(String), approved: true }]);
    expect((await turn([same], for_('conversation', false))).said).toEqual(['no']);
    const later = await turn([same]);
    expect([later.said, later.asked]).toEqual([['no'], []]);
  });

  test('is asked again where the worker does not let an answer stand for longer', async () => {
    const turn = asking([], { scopes: ['execution'] });
    const answer = { approved: true, metadata: { scope: 'conversation' } };
    const { asked, ctx } = await turn([runs('make'), runs('make')], answer);
    expect(asked).toEqual(['make', 'make']);
    expect(ctx.native('policy.scope_refused')).toMatchObject([{ scope: 'conversation' }, {}]);
    const alone = await asking([], { continuity: 'none' })([runs('make'), runs('make')], answer);
    expect(alone.asked).toEqual(['make', 'make']);
  });

  test('is known by its words wherever it puts them, and by the folder in which it runs', async () => {
    const turn = asking([
      { command: 'npm test', answer: 'allow' },
      { command: 'git push', answer: 'deny' },
    ]);
    const runs_ = (rawInput: Json) => ({ title: 'run', kind: 'execute', rawInput });
    const { said, asked } = await turn(
      [
        runs_({ cmd: 'npm test' }),
        runs_({ command: ['bash', '-lc', 'npm test'] }),
        runs_({ command: 'npm', args: ['test'] }),
        runs_({ command: 'git', args: ['push'] }),
        runs_({ command: 'npm test', args: '; rm x' }),
        runs_({ command: 'npm test', cwd: '/' }),
        runs_({ script: 'npm test' }),
      ],
      { approved: true, value: { optionId: 'always' } },
    );
    expect(said).toEqual(['once', 'once', 'once', 'no', 'always', 'always', 'always']);
    expect(asked).toHaveLength(3);
  });

  test('is asked about places that are named in ways that a rule cannot follow', async () => {
    const turn = asking([
      { tool: 'read', answer: 'allow' },
      { path: 'src', answer: 'allow' },
      { path: join(homedir(), '.ssh'), answer: 'deny' },
    ]);
    const reads = (rawInput: Json, kind = 'read') => ({ title: 'read', kind, rawInput });
    const { said, asked } = await turn(
      [
        reads({ file_path: 'a', limit: 5 }),
        reads({ path: '~/notes' }),
        reads({ path: '~/.ssh/id' }),
        reads({ uri: 'file:///etc/passwd' }),
        reads({ path: 'ssh://elsewhere/etc/passwd' }),
        reads({ path: 'src/a', paths: ['src/b', '/etc/passwd'] }),
        reads({ source: 'src/a', destination: '../out' }, 'move'),
        { title: 'edit', kind: 'edit', locations: [{ path: 'src/a' }, { path: 'src/b\0' }] },
      ],
      { approved: true, value: { optionId: 'always' } },
    );
    expect(said).toEqual(['once', 'always', 'no', 'always', 'always', 'always', 'always', 'always']);
    expect(asked).toHaveLength(6);
  });

  test('is denied by a rule whatever a person said before', async () => {
    const it = asking([{ command: 'make', answer: 'deny' }]);
    const { said, asked } = await it([runs('make')], { approved: true, metadata: { scope: 'conversation' } });
    expect([said, asked]).toEqual([['no'], []]);
  });
});
