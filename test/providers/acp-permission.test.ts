/** Nobody approves by accident, and no request of an agent stays without an answer. */
import { describe, expect, test } from 'vitest';
import type { ActionResponse } from '../../protocol/action.js';
import type { Json } from '../../protocol/json.js';
import { chooseOption } from '../../providers/acp/permission.js';
import { fixture } from '../support/acp-agents.js';
import { eventually, testContext } from '../support/provider-context.js';

/** Runs an agent that says what outcome it was told. */
async function outcome(mode: string, response: ActionResponse) {
  const { provider } = fixture('polite', mode);
  const ctx = testContext(provider, { answer: () => response });
  const result = await provider.run(ctx);
  return { ctx, result, outcome: JSON.parse(ctx.text) as Json };
}

const selected = (optionId: string) => ({ outcome: 'selected', optionId });
const cancelled = { outcome: 'cancelled' };

describe('a permission request', () => {
  test('is an approval with the tool call and the options', async () => {
    const { ctx } = await outcome('ask', { approved: true });
    expect(ctx.actions).toMatchObject([
      {
        kind: 'approval',
        title: 'rm -rf build',
        payload: {
          toolCall: { toolCallId: 'call_1', title: 'rm -rf build', kind: 'execute', status: 'pending' },
          options: [
            { id: 'once', name: 'Allow once', kind: 'allow_once' },
            { id: 'always', name: 'Always allow', kind: 'allow_always' },
            { id: 'no', name: 'Reject', kind: 'reject_once' },
          ],
        },
      },
    ]);
  });

  test.each<[string, ActionResponse, Json]>([
    ['ask', { approved: true }, selected('once')],
    ['ask', { approved: false }, selected('no')],
    ['ask', { approved: true, value: { optionId: 'always' } }, selected('always')],
    ['ask', { approved: false, value: { optionId: 'always' } }, cancelled],
    ['ask', { approved: true, value: { optionId: 'no' } }, cancelled],
    ['ask', { approved: true, value: { optionId: 'made up' } }, cancelled],
    ['ask', { value: { optionId: 'once' } }, cancelled],
    ['ask', {}, cancelled],
    ['ask_two_yes', { approved: true }, cancelled],
    ['ask_two_yes', { approved: true, value: { optionId: 'once_and_switch' } }, selected('once_and_switch')],
    ['ask_two_yes', { approved: false }, selected('no')],
    ['ask_always_only', { approved: true }, cancelled],
    ['ask_always_only', { approved: false }, cancelled],
    ['ask_always_only', { approved: true, value: { optionId: 'always' } }, selected('always')],
    ['ask_strange', { approved: true }, selected('once')],
  ])('%s, answered %j, is told %j', async (mode, response, told) => {
    expect((await outcome(mode, response)).outcome).toEqual(told);
  });

  test('without an option asks nobody', async () => {
    const { ctx, outcome: told } = await outcome('ask_nothing', { approved: true });
    expect(told).toEqual(cancelled);
    expect(ctx.actions).toEqual([]);
  });

  test('that is malformed is refused with −32602', async () => {
    expect((await outcome('ask_malformed', { approved: true })).outcome).toMatchObject({ code: -32602 });
  });

  test('with a tool call over the bound is cut, never its options', async () => {
    const { ctx } = await outcome('ask_large', { approved: true });
    expect(ctx.actions[0]?.payload).toMatchObject({ truncated: true, toolCall: { title: 'rm -rf build' } });
    expect(JSON.stringify(ctx.actions[0]?.payload)).toContain('"id":"always"');
  });

  test('has the title that the tool call was announced with', async () => {
    const { ctx } = await outcome('ask_untitled', { approved: true });
    expect(ctx.actions[0]?.title).toBe('drop the database');
  });

  test('two at once are asked one after the other', async () => {
    const { provider } = fixture('polite', 'ask_twice_at_once');
    const ctx = testContext(provider);
    const run = provider.run(ctx);
    await eventually(() => ctx.actions.length === 1);
    ctx.respond({ approved: true });
    await eventually(() => ctx.actions.length === 2);
    ctx.respond({ approved: false });
    await run;
    expect(ctx.actions.map((action) => action.title)).toEqual(['first', 'second']);
    expect(ctx.text).toBe(JSON.stringify(selected('once')) + JSON.stringify(selected('no')));
  });

  test('for a session that is not ours is cancelled at once', async () => {
    const { ctx, outcome: told } = await outcome('ask_for_others', { approved: true });
    expect(told).toEqual(cancelled);
    expect(ctx.actions).toEqual([]);
  });

  test('that the agent takes back is withdrawn', async () => {
    const { provider } = fixture('polite', 'ask_and_withdraw');
    const ctx = testContext(provider);
    await provider.run(ctx);
    expect(ctx.actions).toMatchObject([{ state: 'withdrawn' }]);
    expect(ctx.text).toBe(`asked ${JSON.stringify(cancelled)}`);
  });

  test('that is open when the agent exits is withdrawn, and the exit is named', async () => {
    const { provider, left } = fixture('hostile', 'exits_while_asking');
    const ctx = testContext(provider);
    await expect(provider.run(ctx)).rejects.toMatchObject({
      code: 'PROVIDER_ERROR',
      message: expect.stringMatching(/agent "fixture" exited with code 3/),
    });
    expect(ctx.actions).toMatchObject([{ state: 'withdrawn' }]);
    expect(left()).toEqual([]);
  });

  test('that a person rejects may end the turn as cancelled', async () => {
    const { ctx, result } = await outcome('ask_codex', { approved: false });
    expect(result).toEqual({});
    expect(ctx.native('acp.stop')).toEqual([
      { name: 'acp.stop', stopReason: 'cancelled', message: expect.any(String) },
    ]);
  });

  test('that a person approves may not', async () => {
    const { provider } = fixture('polite', 'ask_codex');
    const run = provider.run(testContext(provider, { answer: () => ({ approved: true }) }));
    await expect(run).rejects.toMatchObject({
      code: 'PROVIDER_ERROR',
      message: expect.stringContaining('"cancelled"'),
    });
  });

  test('stops the clock of the turn', async () => {
    const { provider } = fixture('polite', 'ask', { turnTimeoutMs: 700 });
    const ctx = testContext(provider);
    const run = provider.run(ctx);
    await eventually(() => ctx.actions.length === 1);
    const asked = Date.now();
    await eventually(() => Date.now() - asked > 1000);
    ctx.respond({ approved: true });
    await expect(run).resolves.toEqual({});
  });

  test('that the runtime cannot take fails the run with its error', async () => {
    const { provider, left } = fixture('polite', 'ask');
    const ctx = testContext(provider, {
      answer: () => {
        throw new Error('no more actions');
      },
    });
    await expect(provider.run(ctx)).rejects.toThrow('no more actions');
    expect(left()).toEqual([]);
  });
});

test('an option is found again when its id was redacted for the reader', () => {
  const options = [{ id: 'say-hunter22', name: 'Yes', kind: 'allow_once' as const }];
  const payload = { options: [{ id: 'say-[redacted]', name: 'Yes', kind: 'allow_once' }] };
  expect(chooseOption(options, payload, { approved: true, value: { optionId: 'say-[redacted]' } })).toBe(0);
  expect(chooseOption(options, payload, { approved: true, value: { optionId: 'say-hunter22' } })).toBeUndefined();
});
