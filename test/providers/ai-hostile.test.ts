import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type AiOptions, aiTool } from '../../providers/ai/ai.js';
import { scratchFolder } from '../support/scratch.js';
import { Attempt } from '../support/scripted-context.js';
import { call, json, type RawModel, type Respond, rawModel, rig, runsIn, sse, text } from './ai-rig.js';

let runs: string;
let model: RawModel;
beforeEach(() => {
  runs = join(scratchFolder('ai-'), 'runs');
});
afterEach(() => model.stop());

async function attempt(answers: Respond[], options: Partial<AiOptions> = {}) {
  model = await rawModel(...answers);
  return new Attempt(rig({ ...model, runs, options }));
}

type Native = { name: string; [key: string]: unknown };
const natives = (one: Attempt<unknown>, name: string) =>
  (one.all('native') as Native[]).filter((event) => event.name === name);
const quick = { limits: { maxRetryWaitMs: 600 } };

describe('a stream that is cut', () => {
  test('after text: asked again, the cut is marked, and the final output holds no part of it', async () => {
    const one = await attempt([sse([text('half an answ')], { end: false }), sse([text('the whole answer')])]);
    const result = await one.result;
    expect(result.finalOutput).toBe('the whole answer');
    expect(one.text).toBe('half an answthe whole answer');
    expect(natives(one, 'ai.retry')).toMatchObject([{ request: 1, discardedCharacters: 12 }]);
    expect(model.bodies).toHaveLength(2);
  });

  test('for ever: fails after a stated number of requests', async () => {
    const one = await attempt([sse([text('half')], { end: false })], { limits: { maxRetries: 1 } });
    await expect(one.result).rejects.toMatchObject({
      code: 'PROVIDER_ERROR',
      message: expect.stringMatching(/model "local" .*after 4 characters.*2 requests/s),
    });
    expect(model.bodies).toHaveLength(2);
    expect(natives(one, 'ai.usage')).toHaveLength(1);
  });

  test('after complete arguments: the tool does not run', async () => {
    const one = await attempt([sse([call('echo', '{"word":"x"}')], { end: false }), sse([text('ok')])]);
    await one.result;
    expect(runsIn(runs)).toEqual([]);
  });

  test('without a finish reason is a failure', async () => {
    const one = await attempt([sse([text('hm')], { finish: null })], { limits: { maxRetries: 0 } });
    await expect(one.result).rejects.toThrow(/without a (finish )?reason/);
    expect(model.bodies).toHaveLength(1);
  });
});

describe('broken arguments', () => {
  test.each(['{"path":', 'null', '[1]', '"text"', '{"word":1}', '{}', '{"word":12345678901234567890}'])(
    '%s becomes one error result, and the run goes on',
    async (args) => {
      const one = await attempt([sse([call('echo', args)], { finish: 'tool_calls' }), sse([text('sorry')])]);
      expect(await one.result).toMatchObject({ usage: { inputTokens: 20, outputTokens: 10 } });
      expect(one.text).toBe('sorry');
      expect(runsIn(runs)).toEqual([]);
      expect(natives(one, 'ai.tool_result')).toMatchObject([{ isError: true, tool: 'echo' }]);
      expect(model.bodies[1]!.messages.at(-1)).toMatchObject({ role: 'tool', tool_call_id: 'call-echo' });
    },
  );

  test('for ever end at the limit of steps', async () => {
    const one = await attempt([sse([call('echo', '{')], { finish: 'tool_calls' })], { limits: { maxSteps: 4 } });
    await expect(one.result).rejects.toThrow(/limit of 4 model answers \(maxSteps\)/);
    expect(model.bodies).toHaveLength(4);
    // What the four have used is known although it failed.
    expect(one.all('usage').at(-1)).toEqual({ inputTokens: 40, outputTokens: 20 });
  });

  test('a tool that is not there gets an error that names those that are', async () => {
    const one = await attempt([sse([call('rm -rf', '{}')], { finish: 'tool_calls' }), sse([text('oh')])]);
    await one.result;
    const [result] = natives(one, 'ai.tool_result');
    expect(result!.output).toContain('echo, deploy');
    expect(result!.tool).toBe('rm_-rf');
  });
});

test('two calls with one id are two calls, each with its own approval', async () => {
  const two = [call('deploy', '{"version":"1"}', 'same', 0), call('deploy', '{"version":"2"}', 'same', 1)];
  const one = await attempt([sse(two, { finish: 'tool_calls' }), sse([text('done')])]);
  expect(await one.result).toEqual({ suspended: true });
  const [asked] = one.all('suspend') as { payload: { callId: string; input: unknown } }[];
  expect(asked!.payload).toMatchObject({ callId: 'same', input: { version: '1' } });
  const journal = one.all('record') as never[];
  const provider = rig({ ...model, runs });
  const second = new Attempt(provider, { attempt: 2, resume: { journal, response: { approved: true } } });
  expect(await second.result).toEqual({ suspended: true });
  expect(runsIn(runs)).toEqual(['deploy 1 same']);
  const [again] = second.all('suspend') as { payload: { callId: string; input: unknown } }[];
  expect(again!.payload).toMatchObject({ input: { version: '2' } });
  expect(again!.payload.callId).not.toBe('same');
  const whole = [...journal, ...(second.all('record') as never[])];
  const third = new Attempt(provider, { attempt: 3, resume: { journal: whole, response: { approved: false } } });
  await third.result;
  expect(runsIn(runs)).toEqual(['deploy 1 same']);
  expect(third.text).toBe('done');
  const ids = model.bodies[1]!.messages.flatMap((message) => message.tool_calls?.map(({ id }) => id) ?? []);
  expect(new Set(ids).size).toBe(2);
});

describe('finish reason and content disagree', () => {
  test('an empty list of calls for ever ends after three answers', async () => {
    const one = await attempt([sse([], { finish: 'tool_calls' })]);
    await expect(one.result).rejects.toThrow(/3 answers in a row/);
    expect(model.bodies).toHaveLength(3);
  });

  test('"stop" with calls runs them', async () => {
    const one = await attempt([sse([call('echo', '{"word":"x"}')]), sse([text('ok')])]);
    await one.result;
    expect(runsIn(runs)).toEqual(['echo x']);
  });

  test('"length" succeeds and says so; the calls of such an answer are not run', async () => {
    const cut = await attempt([
      sse([call('echo', '{"word":"x"}')], { finish: 'length' }),
      sse([text('as far as')], { finish: 'length' }),
    ]);
    await cut.result;
    expect(runsIn(runs)).toEqual([]);
    expect(natives(cut, 'ai.turn').map((event) => event.finishReason)).toEqual(['length', 'length']);
    expect(natives(cut, 'ai.stop')).toMatchObject([{ finishReason: 'length' }]);
  });

  test('"content_filter" and an unknown reason fail and say so', async () => {
    const filtered = await attempt([sse([text('I')], { finish: 'content_filter' })]);
    await expect(filtered.result).rejects.toThrow(/content-filter/);
    await model.stop();
    const unknown = await attempt([sse([text('I')], { finish: 'tired' })]);
    await expect(unknown.result).rejects.toThrow(/unknown reason \("tired"\)/);
  });
});

describe('an error', () => {
  const echoed: Respond = (response, _body, request) =>
    json(401, { error: { message: `bad header ${request.headers.authorization}` } })(response, _body, request);

  test.each([400, 401, 403, 404])('%s asks once', async (status) => {
    const one = await attempt([json(status, { error: { message: 'no' } })]);
    await expect(one.result).rejects.toThrow(`model "local" answered ${status}: no`);
    expect(model.bodies).toHaveLength(1);
  });

  test.each([408, 429, 500, 503])('%s is asked again, within the bound', async (status) => {
    const one = await attempt([json(status, { error: { message: 'busy' } })], quick);
    await expect(one.result).rejects.toThrow(/answered \d+: busy \(3 requests/);
    expect(model.bodies).toHaveLength(3);
  });

  test('200 with a JSON error is a failure', async () => {
    const one = await attempt([json(200, { error: { message: 'out of credit' } })]);
    await expect(one.result).rejects.toThrow(/answered 200 with application\/json instead of a stream: out of credit/);
    expect(model.bodies).toHaveLength(1);
  });

  test('a Retry-After of days ends it', async () => {
    const one = await attempt([json(429, { error: { message: 'later' } }, { 'retry-after': '172800' })]);
    await expect(one.result).rejects.toThrow(/asks to wait 172800 s/);
    expect(model.bodies).toHaveLength(1);
  });

  test('a short Retry-After is kept', async () => {
    const one = await attempt([json(429, { error: { message: 'later' } }, { 'retry-after': '1' }), sse([text('ok')])]);
    const began = Date.now();
    await one.result;
    expect(Date.now() - began).toBeGreaterThanOrEqual(990);
    expect(natives(one, 'ai.retry')).toMatchObject([{ waitMs: 1000 }]);
  });

  test('a cancel during back-off takes under a second', async () => {
    const one = await attempt([json(429, { error: { message: 'later' } }, { 'retry-after': '20' })]);
    while (natives(one, 'ai.retry').length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
    const began = Date.now();
    one.abort();
    expect(await one.result).toEqual({ forced: false });
    expect(Date.now() - began).toBeLessThan(1000);
  });

  test('that repeats the Authorization header shows it nowhere', async () => {
    const one = await attempt([echoed]);
    const error = await one.result.catch((caught: unknown) => caught);
    expect(String((error as Error).message)).toContain('bad header Bearer [redacted]');
    const all = JSON.stringify([one.did, error, (error as Error).stack, String((error as Error).cause)]);
    expect(all).not.toContain(model.apiKey);
  });

  test('in text, a call, a result and a retry shows it nowhere either', async () => {
    const key = 'sk-raw-0123456789abcdef';
    const one = await attempt([
      json(500, { error: { message: `your key ${key} is fine` } }),
      sse([text('I know sk-raw-012'), text('3456789abcdef!'), call('echo', JSON.stringify({ word: key }))], {
        finish: 'tool_calls',
      }),
      sse([call('fail', '{}')], { finish: 'tool_calls' }),
      sse([text('bye')]),
    ]);
    await one.result;
    expect(one.text).toBe('I know [redacted]!bye');
    expect(JSON.stringify(one.did)).not.toContain(key);
    expect(JSON.stringify(model.bodies)).not.toContain(key);
  });

  test('a redirect is not followed', async () => {
    const one = await attempt([
      (response) => response.writeHead(307, { location: 'http://127.0.0.1:1/elsewhere' }).end(),
    ]);
    await expect(one.result).rejects.toThrow(/a redirect, which is not followed/);
  });
});

test('a model that says nothing is given up', async () => {
  const one = await attempt([() => {}], { limits: { idleTimeoutMs: 200, maxRetries: 0 } });
  await expect(one.result).rejects.toThrow(/said nothing for 200 ms/);
});

test('the limits of tokens and of time end it', async () => {
  const again = sse([call('echo', '{"word":"x"}')], { finish: 'tool_calls' });
  const tokens = await attempt([again], { limits: { maxTokens: 40 } });
  await expect(tokens.result).rejects.toThrow(/limit of 40 tokens/);
  expect(model.bodies).toHaveLength(3);
  await model.stop();
  const time = await attempt([() => {}], { limits: { runTimeoutMs: 300 } });
  await expect(time.result).rejects.toThrow(/limit of 300 ms of working time/);
});

test('a tool that ignores its abort holds up neither the loop nor its time limit; a cancel waits for it', async () => {
  let free: () => void = () => {};
  const stuck = aiTool({
    description: 'Is stuck.',
    input: z.strictObject({}),
    needsApproval: false,
    timeoutMs: 100,
    execute: () => new Promise<void>((resolve) => (free = resolve)),
  });
  const stuckCall = sse([call('stuck', '{}')], { finish: 'tool_calls' });
  const one = await attempt([stuckCall, sse([text('so be it')])], { tools: { stuck } });
  await one.result;
  expect(one.text).toBe('so be it');
  expect(natives(one, 'ai.tool_result')).toMatchObject([{ isError: true, output: expect.stringContaining('unknown') }]);
  await model.stop();

  const two = await attempt([stuckCall], { tools: { stuck: { ...stuck, timeoutMs: 60_000 } } });
  while (natives(two, 'ai.tool_call').length === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  two.abort();
  let settled = false;
  void two.result.then(() => {
    settled = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(settled).toBe(false);
  free();
  expect(await two.result).toEqual({ forced: false });
}, 20_000);
