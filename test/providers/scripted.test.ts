import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { echo } from '../../examples/echo-provider.js';
import { HoldfastError } from '../../protocol/errors.js';
import type { Json } from '../../protocol/json.js';
import { providerManifestSchema } from '../../protocol/manifest.js';
import type { Resume } from '../../providers/provider.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { Attempt, type AttemptOptions } from '../support/scripted-context.js';

const scripted = scriptedProvider();

function attempt(steps: Json[], options: AttemptOptions & { suspend?: boolean } = {}) {
  const { suspend, ...rest } = options;
  return new Attempt(scripted, { ...rest, config: { steps, ...(suspend === undefined ? {} : { suspend }) } });
}

async function run(steps: Json[], options: AttemptOptions & { suspend?: boolean } = {}) {
  const played = attempt(steps, options);
  const result = await played.result;
  return { played, result, text: played.text };
}

const recoveryOf = (config: Json) =>
  typeof scripted.recovery === 'function' ? scripted.recovery(scripted.config.parse(config)) : scripted.recovery;

const refusal = (config: Json, provider = scripted) =>
  provider.config.safeParse(config).error?.issues.map((issue) => issue.message) ?? [];

describe('the steps', () => {
  it.each<[string, Json, string]>([
    ['a text', 'good morning', 'good morning'],
    ['anything else as JSON', { a: [1] }, '{"a":[1]}'],
    ['false', false, 'false'],
  ])('by default say the input back: %s', async (_, input, text) => {
    const played = new Attempt(scripted, { input });
    expect(await played.result).toEqual({});
    expect(played.text).toBe(text);
  });

  it('happen in order', async () => {
    const artifact = { name: 'report.md', mediaType: 'text/markdown', id: 'art_1' };
    const { played, result } = await run(
      [
        { say: 'one ' },
        { native: { name: 'demo.step', n: 1 } },
        { artifact },
        { session: { thread: 7 } },
        { approve: { title: 'Go on?', description: 'It may cost.', payload: { usd: 1 } } },
        { record: { done: 1 } },
        { ask: { title: 'Name?' } },
        { usage: { inputTokens: 3, costUsd: 0.5 } },
        { wait: 1 },
        { say: ' end' },
      ],
      { answer: ({ kind }) => (kind === 'approval' ? { approved: true } : { value: 'Ada' }) },
    );
    expect(played.did).toEqual([
      ['text', 'one '],
      ['native', { name: 'demo.step', n: 1 }],
      ['artifact', artifact],
      ['session', { thread: 7 }],
      ['ask', { kind: 'approval', title: 'Go on?', description: 'It may cost.', payload: { usd: 1 } }],
      ['text', 'approved'],
      ['record', { done: 1 }],
      ['ask', { kind: 'input', title: 'Name?' }],
      ['text', 'Ada'],
      ['usage', { inputTokens: 3, costUsd: 0.5 }],
      ['text', ' end'],
    ]);
    expect(result).toEqual({ usage: { inputTokens: 3, costUsd: 0.5 } });
  });

  it.each<[string, Json, string]>([
    ['a text', 'as it is', 'as it is'],
    ['false', false, 'false'],
    ['an empty list', [], '[]'],
    ['an object', { a: 1 }, '{"a":1}'],
  ])('say %s that was given as input', async (_, value, text) => {
    expect((await run([{ ask: { title: '?' } }], { answer: () => ({ value }) })).text).toBe(text);
  });

  it('say that something was rejected', async () => {
    expect((await run([{ approve: { title: '?' } }], { answer: () => ({ approved: false }) })).text).toBe('rejected');
  });

  it('say a text in pieces, and never split a surrogate pair', async () => {
    const { played } = await run([{ say: 'ab\u{1F600}\u{1F600}c', chunk: 3 }]);
    expect(played.all('text')).toEqual(['ab\u{1F600}', '\u{1F600}c']);
    const typed = await run([{ say: '\u{1F600}é', everyMs: 1 }, { say: '' }]);
    expect(typed.played.all('text')).toEqual(['\u{1F600}', 'é']);
  });

  it('take their time between pieces', async () => {
    const begun = Date.now();
    await run([{ say: 'abc', chunk: 1, everyMs: 20 }]);
    expect(Date.now() - begun).toBeGreaterThanOrEqual(38);
  });

  it('flood no faster than is taken', async () => {
    let inFlight = 0;
    let most = 0;
    const room = async () => {
      most = Math.max(most, ++inFlight);
      await Promise.resolve();
      inFlight--;
    };
    const { played } = await run([{ flood: { events: 500, bytes: 8 } }], { room });
    expect(most).toBe(1);
    expect(played.all('text')).toHaveLength(500);
    expect(played.all('text').slice(-1)).toEqual(['.....500']);
    expect((await run([{ flood: { events: 12, bytes: 1 } }])).text).toBe('123456789012');
  });

  it('fail with their message', async () => {
    const failed = attempt([{ say: 'so far' }, { fail: 'no more' }, { say: 'never' }]).result;
    await expect(failed).rejects.toThrow('no more');
    await expect(failed).rejects.toBeInstanceOf(HoldfastError);
    await expect(failed).rejects.toMatchObject({ code: 'PROVIDER_ERROR' });
  });
});

describe('being told to stop', () => {
  it.each<[string, Json]>([
    ['a wait', { wait: 1_000_000 }],
    ['a hang', { hang: true }],
    ['slow text', { say: 'abc', everyMs: 1_000_000 }],
    ['an open action', { approve: { title: '?' } }],
    ['an endless flood', { flood: { events: 10_000_000 } }],
  ])('ends %s at once', async (_, step) => {
    const room = () => new Promise<void>((resolve) => setImmediate(resolve));
    const played = attempt([step, { say: 'never' }], { room });
    await sleep(5);
    played.abort();
    await expect(played.result).rejects.toMatchObject({ name: 'AbortError' });
    expect(played.text).not.toContain('never');
  });

  it('leaves no timer and no listener behind', async () => {
    vi.useFakeTimers();
    try {
      const played = attempt([{ wait: 60_000 }]);
      expect(vi.getTimerCount()).toBe(1);
      played.abort();
      await expect(played.result).rejects.toThrow();
      expect(vi.getTimerCount()).toBe(0);
    } finally {
      vi.useRealTimers();
    }
  });

  it('is not heard after ignoreCancel: what is refused is passed over', async () => {
    const steps = [
      { ignoreCancel: true },
      { say: 'before ' },
      { wait: 30 },
      { say: 'after' },
      { record: 1 },
      { wait: 1 },
    ];
    const played = attempt(steps);
    await sleep(5);
    played.abort();
    expect(await played.result).toEqual({});
    expect(played.text).toBe('before ');
  });

  it('does not end a deaf hang', async () => {
    const played = attempt([{ ignoreCancel: true }, { hang: true }]);
    played.abort();
    expect(await Promise.race([played.result, sleep(30, 'still there')])).toBe('still there');
  });

  it('before it begins means that nothing happens', async () => {
    const played = attempt([{ wait: 1 }, { say: 'x' }]);
    played.abort();
    await expect(played.result).rejects.toMatchObject({ name: 'AbortError' });
    expect(played.did).toEqual([]);
  });
});

describe('a crash', () => {
  it('kills the process, at once and without a word', async () => {
    const provider = new URL('../../providers/scripted/provider.ts', import.meta.url).href;
    const script = `
      const { scriptedProvider } = await import(${JSON.stringify(provider)});
      const config = { steps: [{ say: 'last words' }, { crash: true }] };
      const emit = async (type, { text }) => process.stdout.write(text);
      const ctx = { config, emit, execution: { attempt: 1 }, signal: new AbortController().signal };
      await scriptedProvider({ allowCrash: true }).run(ctx);
      console.log('survived');`;
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script]);
    let said = '';
    child.stdout.on('data', (chunk) => {
      said += chunk;
    });
    const [code, signal] = await once(child, 'close');
    expect({ code, signal, said }).toEqual({ code: null, signal: 'SIGKILL', said: 'last words' });
  });
});

describe('recovery', () => {
  const resumed = (journal: Json[], response?: Resume['response']): AttemptOptions => ({
    attempt: 2,
    resume: { journal, ...(response === undefined ? {} : { response }) },
  });

  it('is by journal when there is something to journal', () => {
    expect(recoveryOf({})).toBe('none');
    expect(recoveryOf({ steps: [{ say: 'x' }] })).toBe('none');
    expect(recoveryOf({ steps: [{ say: 'x' }, { record: null }] })).toBe('journal');
    expect(recoveryOf({ suspend: true })).toBe('journal');
  });

  it('goes on after the last entry', async () => {
    const steps = [{ say: 'a' }, { record: 1 }, { say: 'b' }, { record: 2 }, { say: 'c' }];
    expect((await run(steps, resumed([]))).text).toBe('abc');
    expect((await run(steps, resumed([1]))).text).toBe('bc');
    expect((await run(steps, resumed([1, 2]))).text).toBe('c');
  });

  it('keeps what holds from a step before: deafness and usage', async () => {
    const steps = [{ ignoreCancel: true }, { usage: { inputTokens: 1 } }, { record: 1 }, { wait: 20 }];
    const played = attempt(steps, resumed([1]));
    played.abort();
    expect(await played.result).toEqual({ usage: { inputTokens: 1 } });
  });

  it('lets a script go wrong in its first attempts only', async () => {
    const steps = [{ record: 1 }, { hang: true, attempts: 1 }, { say: 'went on' }];
    expect((await run(steps, resumed([1]))).text).toBe('went on');
    const first = attempt(steps);
    expect(await Promise.race([first.result, sleep(20, 'hangs')])).toBe('hangs');
    first.abort();
  });
});

describe('suspending', () => {
  const steps = [
    { say: 'a' },
    { record: { suspendedAtStep: 9 } },
    { approve: { title: 'One?' } },
    { say: ' b ' },
    { ask: { title: 'Two?', payload: [1] } },
    { say: '.' },
  ];
  /** One attempt; `journal` is what came before, and what it adds is put behind. */
  async function next(journal: Json[], response?: Resume['response']) {
    const resume = { journal, ...(response === undefined ? {} : { response }) };
    const { played, result, text } = await run(steps, { suspend: true, resume });
    return { text, result, asked: played.all('suspend'), journal: [...journal, ...(played.all('record') as Json[])] };
  }

  it('ends at each action, and goes on with each answer', async () => {
    const first = await next([]);
    expect(first).toMatchObject({
      text: 'a',
      result: { suspended: true },
      asked: [{ kind: 'approval', title: 'One?' }],
    });
    const second = await next(first.journal, { approved: true });
    expect(second).toMatchObject({
      text: 'approved b ',
      result: { suspended: true },
      asked: [{ kind: 'input', title: 'Two?', payload: [1] }],
    });
    const third = await next(second.journal, { value: 0 });
    expect(third).toMatchObject({ text: '0.', result: {}, asked: [] });
    // A user's entry that looks like a position is none.
    expect(third.journal).toHaveLength(3);
  });

  it('asks again when the attempt that suspended was lost, and makes no second entry', async () => {
    const first = await next([]);
    const again = await next(first.journal);
    expect(again).toMatchObject({ text: '', asked: [{ title: 'One?' }], journal: first.journal });
    expect(await next(again.journal, { approved: false })).toMatchObject({ text: 'rejected b ' });
  });

  it('uses an answer once: the next action is a question of its own', async () => {
    const first = await next([]);
    expect(await next(first.journal, { approved: true })).toMatchObject({ asked: [{ title: 'Two?' }] });
  });
});

describe('the configuration', () => {
  it('refuses what is no step, and says why', () => {
    for (const [step, message] of [
      [{ sya: 'x' }, /^a step needs one of the keys say, wait, /],
      ['say', /^a step is an object/],
      [{ say: 'x', wait: 1 }, /^a step has one main key, this has "say" and "wait"$/],
      [{ say: 'x', chunks: 1 }, /^say: Unrecognized key/],
      [{ wait: 2 ** 31 }, /^wait: Too big/],
      [{ wait: -1 }, /^wait: Too small/],
      [{ approve: { title: '' } }, /^approve.title: /],
      [{ native: { n: 1 } }, /^native: needs a text "name"$/],
      [{ hang: false }, /^hang: /],
      [{ record: JSON.parse('{"__proto__":1}') }, /^record: .*"__proto__"/],
    ] as const)
      expect(refusal({ steps: [step as Json] })).toEqual([expect.stringMatching(message)]);
    expect(refusal({ step: [] })).toEqual([expect.stringMatching(/Unrecognized key/)]);
  });

  it('takes a crash only where that was allowed', () => {
    const config = { steps: [{ crash: true }] };
    expect(refusal(config)).toEqual([expect.stringMatching(/only .* created with allowCrash/)]);
    expect(refusal(config, scriptedProvider({ allowCrash: true }))).toEqual([]);
    expect(JSON.stringify(z.toJSONSchema(scripted.config))).not.toContain('"crash"');
  });

  it('is the same as its JSON Schema, for whoever checks before', () => {
    for (const io of ['input', 'output'] as const) {
      const check = new Ajv2020({ strict: false }).compile(z.toJSONSchema(scriptedProvider().config, { io }));
      const good = [{ say: 'x', chunk: 2 }, { record: null }, { artifact: { name: 'a', mediaType: 'text/plain' } }];
      for (const config of [{}, { steps: [] }, { steps: good }, { suspend: true }]) {
        expect(check(config), JSON.stringify(config)).toBe(true);
        expect(refusal(config)).toEqual([]);
      }
      for (const config of [{ steps: [{}] }, { steps: [{ say: 1 }] }, { stepz: [] }, { steps: [{ crash: true }] }])
        expect(check(config), JSON.stringify(config)).toBe(false);
    }
  });

  it('is kept as it was given, so that it can be sent on', () => {
    const config = { steps: [{ native: { name: 'a.b', more: [1] } }, { record: { a: null } }], suspend: false };
    expect(scripted.config.parse(config)).toEqual(config);
  });
});

describe('the manifests', () => {
  it('are valid', () => {
    for (const { manifest } of [scripted, echo]) expect(providerManifestSchema.parse(manifest)).toEqual(manifest);
    expect(scripted.manifest).toMatchObject({
      id: 'scripted',
      capabilities: { 'conversation.continuity': 'unsupported' },
    });
    expect(scriptedProvider({ id: 'other' }).manifest.id).toBe('other');
  });
});

describe('the echo example', () => {
  it('says its input word by word, and stops when told to', async () => {
    const played = new Attempt(echo, { input: 'hello wide world', config: { upper: true } });
    expect(await played.result).toEqual({});
    expect(played.all('text')).toEqual(['HELLO ', 'WIDE ', 'WORLD']);
    const stopped = new Attempt(echo, { input: 'a b c d', room: () => sleep(5) });
    stopped.abort();
    await expect(stopped.result).rejects.toMatchObject({ name: 'AbortError' });
  });

  it('refuses a misspelt key', () => {
    expect(echo.config.safeParse({ uper: true }).success).toBe(false);
  });
});
