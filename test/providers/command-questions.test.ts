/** What a command asks: rules and earlier answers go before a person; questions expire, and values have a shape. */
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ActionResponse } from '../../protocol/action.js';
import type { Json } from '../../protocol/json.js';
import { type CommandOptions, commandProvider } from '../../providers/command/command.js';
import { Cluster } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';
import { testContext } from '../support/provider-context.js';
import { scratchFolder } from '../support/scratch.js';
import { script } from './command-rig.js';

const asking = { input: 'ndjson', output: 'ndjson' } as const;

/** Writes each line of its prompt (a JSON array) once the one before is answered, and ends with all answers. */
const EACH = `
const got = [];
let open = [];
lines().on('line', (line) => {
  const message = JSON.parse(line);
  if (message.type === 'prompt') open = JSON.parse(message.text); else got.push(message);
  const next = open.shift();
  if (next !== undefined) say(next);
  else { say({ type: 'result', text: JSON.stringify(got) }); process.exit(0); }
});`;

describe('the approval of a program', () => {
  const workspace = scratchFolder();
  let number = 0;
  const approve = (title: string, payload?: Json) => ({
    type: 'approve',
    id: ++number,
    title,
    ...(payload === undefined ? {} : { payload }),
  });

  function turns(policy: CommandOptions['policy'], more: Partial<CommandOptions> = {}) {
    const { provider } = script(EACH, { command: { ...asking, cwd: workspace }, policy, ...more });
    let session: Json | undefined;
    return async (lines: Json[], response?: ActionResponse) => {
      const kept = session === undefined ? {} : { session };
      const ctx = testContext(provider, { input: JSON.stringify(lines), ...kept, answer: () => response });
      const { finalOutput = '[]' } = await provider.run(ctx);
      session = ctx.sessions.at(-1) ?? session;
      const said = (JSON.parse(finalOutput) as { approved: boolean; value?: Json }[]).map(({ approved, value }) =>
        value === undefined ? approved : value,
      );
      return { said, asked: ctx.actions.map(({ title }) => title), ctx };
    };
  }

  test('is answered by the rules, each on record; a person is asked about the rest', async () => {
    const turn = turns([
      { name: 'tests', program: 'it', command: 'npm test', answer: 'allow' },
      { name: 'pushes', command: 'git push', answer: 'deny' },
      { tool: 'write_*', path: 'src', answer: 'allow' },
      { path: 'src/keys', answer: 'deny' },
      { tool: 'pay', answer: 'ask' },
      { program: 'it', tool: 'pa*', answer: 'allow' },
    ]);
    const { said, asked, ctx } = await turn(
      [
        approve('a', { command: 'npm test' }),
        approve('b', { tool: 'bash', input: { command: ['git', '-C', 'x', 'push'] } }),
        approve('c', { command: 'npm test; ls' }),
        approve('d', { tool: 'write_file', input: { path: 'src/a' } }),
        approve('e', { tool: 'write_file', input: { edits: [{ file: 'src/keys/a' }] } }),
        approve('f', { tool: 'write_file', input: { path: '../a' } }),
        approve('g', { tool: 'pay' }),
        approve('h', { tool: 'page' }),
        // Two commands in one are more than either.
        approve('i', { command: 'npm test', input: { command: 'ls' } }),
        approve('j'),
      ],
      { approved: true },
    );
    expect(said).toEqual([true, false, true, true, false, true, true, true, true, true]);
    expect(asked).toEqual(['c', 'f', 'g', 'i', 'j']);
    expect(ctx.native('policy.answered')).toMatchObject([
      { rule: 'tests', approved: true, asked: { title: 'a', payload: { command: 'npm test' } } },
      { rule: 'pushes', approved: false },
      { rule: 'policy.2', approved: true },
      { rule: 'policy.3', approved: false },
      { rule: 'policy.5', approved: true },
    ]);
  });

  test('with options gets the one that fits; of several a person chooses', async () => {
    const option = (id: string, kind: string) => ({ id, name: id, kind });
    const [yes, no] = [option('y', 'allow_once'), option('n', 'reject_once')];
    const turn = turns([{ tool: 'x', answer: 'allow' }]);
    const two = [yes, option('z', 'allow_once'), no];
    const { said, asked } = await turn(
      [approve('one', { tool: 'x', options: [yes, no] }), approve('two', { tool: 'x', options: two })],
      { approved: true, value: { optionId: 'z' } },
    );
    expect(said).toEqual([{ optionId: 'y' }, { optionId: 'z' }]);
    expect(asked).toEqual(['two']);
  });

  test('is not asked again where the answer stands: in the execution, in the conversation', async () => {
    const kept = { workspaces: { own: { kind: 'scratch' } }, workspaceRoot: { path: scratchFolder() } } as const;
    const { cwd: _, ...own } = { cwd: '', ...asking, workspace: 'own' };
    const { provider } = script('', {});
    expect(provider.manifest.capabilities['conversation.continuity']).toBe('unsupported');
    const turn = turns([{ command: 'rm', answer: 'deny' }], { ...kept, command: { ...own, cwd: undefined } } as never);
    const make = () => approve('make', { command: 'make' });
    const scope = (scope: string, approved = true): ActionResponse => ({ approved, metadata: { scope } });
    expect((await turn([make(), make()], scope('once'))).asked).toEqual(['make', 'make']);
    expect((await turn([make(), make()], scope('execution', false))).asked).toEqual(['make']);
    const first = await turn([make(), make()], scope('conversation'));
    expect([first.asked, first.said]).toEqual([['make'], [true, true]]);
    const [{ question } = {}] = first.ctx.native('policy.remembered');
    const later = await turn([make(), approve('rm', { command: 'rm x' })]);
    expect([later.asked, later.said]).toEqual([[], [true, false]]);
    expect(later.ctx.native('policy.answered')).toMatchObject([{ remembered: question, approved: true }, {}]);
  });

  test('without turns does not stand for a conversation, which is on record', async () => {
    const turn = turns([]);
    const { asked, ctx } = await turn([approve('x'), approve('x')], {
      approved: true,
      metadata: { scope: 'conversation' },
    });
    expect(asked).toEqual(['x', 'x']);
    expect(ctx.native('policy.scope_refused')).toHaveLength(2);
    expect(ctx.sessions).toEqual([]);
  });

  test('answered by a rule does not wait for a person who is asked about another one', async () => {
    const { provider } = script(
      `lines().on('line', (line) => {
        const message = JSON.parse(line);
        if (message.type === 'prompt') {
          say({ type: 'approve', id: 'person', title: 'p' });
          say({ type: 'approve', id: 'rule', title: 'r', payload: { tool: 't' } });
        } else { say({ type: 'result', text: message.id }); process.exit(0); }
      });`,
      { command: asking, policy: [{ tool: 't', answer: 'allow' }] },
    );
    const ctx = testContext(provider, { answer: () => undefined });
    expect(await provider.run(ctx)).toEqual({ finalOutput: 'rule' });
  });

  test('cannot be put on record by the program itself', async () => {
    const { provider } = script(`say({ type: 'event', name: 'policy.answered', rule: 'mine' });`);
    const ctx = testContext(provider);
    await provider.run(ctx);
    expect(ctx.native('policy.answered')).toEqual([]);
    expect(ctx.native('command.policy.answered')).toMatchObject([{ event: 'policy.answered', rule: 'mine' }]);
  });

  test.each<[object, RegExp]>([
    [{ program: 'nobody', answer: 'deny' }, /^commandProvider: policy\.0\.program: "nobody" is not in "commands"/],
    [{ command: 'a; b', answer: 'deny' }, /policy\.0\.command: must be plain words/],
    [{ agent: 'it', answer: 'allow' }, /policy\.0: .*"agent"/],
    [{ tool: 'x' }, /policy\.0\.answer/],
  ])('a wrong rule is one clear error: %j', (rule, message) => {
    const it = { command: 'cat', cwd: tmpdir(), output: 'text' as const };
    const make = () => commandProvider({ commands: { it }, policy: [rule as never] });
    expect(make).toThrow(expect.objectContaining({ code: 'VALIDATION_ERROR' }));
    expect(make).toThrow(message);
  });
});

describe('the question of a program, on a server', () => {
  let cluster: Cluster;
  beforeAll(async () => {
    cluster = await Cluster.start();
    await cluster.worker({ providers: [script(EACH, { command: asking }).provider] });
  });
  afterAll(() => cluster.stop());

  const start = async (...lines: Json[]) =>
    (await cluster.start({ providerId: 'command', input: JSON.stringify(lines) })).id;

  test('expires when nobody answers in time: the program is told so, or the execution fails', async () => {
    const [goesOn, fails] = await Promise.all([
      start(
        { type: 'approve', id: 1, title: 'a', timeoutSeconds: 0.3 },
        { type: 'ask', id: 2, title: 'b', expiresAt: new Date(Date.now() - 1000).toISOString() },
      ),
      start({ type: 'ask', id: 1, title: 'c', timeoutSeconds: 0.3, onExpiry: 'fail' }),
    ]);
    const events = await cluster.log(goesOn);
    expectWhole(events);
    const { finalOutput = '' } = await cluster.client.getExecution(goesOn);
    expect(JSON.parse(finalOutput)).toEqual([
      { type: 'answer', id: 1, approved: false, expired: true },
      { type: 'answer', id: 2, expired: true },
    ]);
    expect(events.flatMap(({ type, data }) => (type === 'action.responded' ? [data] : []))).toMatchObject([
      { approved: false, expired: true },
      { expired: true },
    ]);
    expect((await cluster.log(fails)).at(-1)!.data).toMatchObject({ code: 'EXECUTION_TIMEOUT' });
  });

  test('has a schema for its value: what does not fit is refused, and the question stays open', async () => {
    const valueSchema = { type: 'object', properties: { port: { type: 'integer' } }, required: ['port'] };
    const id = await start({ type: 'ask', id: 'port', title: 'Which port?', valueSchema });
    const { id: actionId } = await cluster.action(id);
    const [action] = (await cluster.client.getExecution(id)).pendingActions;
    expect(action).toMatchObject({ valueSchema });
    const refused = cluster.client.respond(id, actionId, { value: { port: 'eighty' } });
    await expect(refused).rejects.toMatchObject({ code: 'VALIDATION_ERROR' });
    await cluster.client.respond(id, actionId, { value: { port: 80 } });
    await cluster.log(id);
    const { finalOutput = '' } = await cluster.client.getExecution(id);
    expect(JSON.parse(finalOutput)).toEqual([{ type: 'answer', id: 'port', value: { port: 80 } }]);
  });

  test('that cannot be asked fails, and says why', async () => {
    const wrong: [object, RegExp][] = [
      [{ type: 'approve', title: 'x', timeoutSeconds: 'soon' }, /"timeoutSeconds" is a number over 0/],
      [{ type: 'approve', title: 'x', timeoutSeconds: 1, expiresAt: '2030-01-01T00:00:00Z' }, /not both/],
      [{ type: 'ask', title: 'x', onExpiry: 'fail' }, /"onExpiry" needs/],
      [{ type: 'ask', title: 'x', timeoutSeconds: 9, onExpiry: 'wait' }, /onExpiry/],
      [{ type: 'ask', title: 'x', valueSchema: { type: 'object', dependentSchemas: {} } }, /dependentSchemas/],
      [{ type: 'ask', title: 'x', valueSchema: 7 }, /valueSchema/],
      [{ type: 'approve', title: 'x', valueSchema: {} }, /"valueSchema" is for an input/],
    ];
    await Promise.all(
      wrong.map(async ([line, message]) => {
        const id = await start({ ...line, id: 1 });
        const { error } = await cluster.client.waitForTerminal(id);
        expect(error).toMatchObject({ code: 'PROVIDER_ERROR', message: expect.stringMatching(message) });
        expect(error?.message).toMatch(/^command "it" asked "x", which cannot be asked: /);
      }),
    );
  });
});
