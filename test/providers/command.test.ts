import { tmpdir } from 'node:os';
import { describe, expect, test } from 'vitest';
import { commandProvider } from '../../providers/command/command.js';
import { eventually } from '../support/provider-context.js';
import { Attempt, type AttemptOptions } from '../support/scripted-context.js';
import { type ScriptOptions, script } from './command-rig.js';

const text = { output: 'text' } as const;
const asking = { input: 'ndjson', output: 'ndjson' } as const;

function attempt(body: string, options: ScriptOptions & { context?: AttemptOptions } = {}) {
  const { context, ...rest } = options;
  const { provider, left } = script(body, rest);
  return { one: new Attempt(provider, context), left };
}

describe('output "text"', () => {
  test('the prompt goes in, the text comes out', async () => {
    const { one, left } = attempt('console.log((await input()).toUpperCase())', {
      command: text,
      context: { input: { text: 'grüße' } },
    });
    expect(await one.result).toEqual({});
    expect(one.text).toBe('GRÜSSE\n');
    expect(left()).toEqual([]);
  });

  test('a character in two reads is whole', async () => {
    const body = `const b = Buffer.from('ü€😀'); for (const byte of b) { process.stdout.write(Buffer.from([byte])); await new Promise(r => setTimeout(r, 15)); }`;
    const { one } = attempt(body, { command: text });
    await one.result;
    expect(one.text).toBe('ü€😀');
  });

  test('a program that never reads its input is none the worse, whatever its size', async () => {
    const { one } = attempt(`process.stdout.write('done')`, {
      command: text,
      context: { input: 'x'.repeat(8 * 1024 * 1024) },
    });
    await one.result;
    expect(one.text).toBe('done');
  });

  test('more than the limit ends it, and names the limit', async () => {
    const body = `const b = Buffer.alloc(65536, 97); const more = () => { while (process.stdout.write(b)); process.stdout.once('drain', more); }; more();`;
    const { one, left } = attempt(body, { command: text, maxOutputBytes: 1_000_000 });
    await expect(one.result).rejects.toThrow('command "it" wrote more than 1000000 bytes (maxOutputBytes)');
    expect(left()).toEqual([]);
  });
});

describe('output "ndjson"', () => {
  test('text, events, artifacts and a result', async () => {
    const { one } = attempt(`
      say({ type: 'text', text: 'Hello ' }); say({ type: 'text', text: await input() });
      say({ type: 'event', name: 'build.step', step: 3 });
      say({ type: 'event', name: 'plain', step: 4 });
      say({ type: 'event', name: 'run.completed', step: 5 });
      say({ type: 'artifact', name: 'report', mediaType: 'text/html', uri: 'https://files.example/1' });
      say({ type: 'result', text: 'the end', usage: { inputTokens: 3, costUsd: 0.1 } });`);
    expect(await one.result).toEqual({ finalOutput: 'the end', usage: { inputTokens: 3, costUsd: 0.1 } });
    expect(one.text).toBe('Hello hello');
    expect(one.all('native')).toEqual([
      { name: 'build.step', step: 3 },
      { name: 'command.plain', event: 'plain', step: 4 },
      { name: 'command.run.completed', event: 'run.completed', step: 5 },
    ]);
    expect(one.all('artifact')).toEqual([{ name: 'report', mediaType: 'text/html', uri: 'https://files.example/1' }]);
  });

  test('questions are answered by a line each, in whatever order', async () => {
    const { one } = attempt(
      `
      const got = [];
      lines().on('line', (line) => {
        const message = JSON.parse(line);
        if (message.type === 'prompt') {
          say({ type: 'approve', id: 1, title: 'Deploy?', payload: { to: 'production' } });
          say({ type: 'ask', id: 'two', title: 'Which?' });
        } else got.push(message);
        if (got.length === 2) { say({ type: 'text', text: JSON.stringify(got) }); process.exit(0); }
      });`,
      {
        command: asking,
        context: {
          answer: ({ kind }) => (kind === 'approval' ? { approved: true } : { value: [false, 0] }),
        },
      },
    );
    await one.result;
    expect(JSON.parse(one.text)).toEqual([
      { type: 'answer', id: 1, approved: true },
      { type: 'answer', id: 'two', value: [false, 0] },
    ]);
    expect(one.all('ask')).toMatchObject([
      { kind: 'approval', title: 'Deploy?', payload: { to: 'production' } },
      { kind: 'input', title: 'Which?' },
    ]);
  });

  test('a person may take longer than the command', async () => {
    const { one } = attempt(
      `say({ type: 'approve', id: 1, title: 'ok?' }); for await (const line of lines()) if (line.includes('answer')) process.exit(0);`,
      { command: { ...asking, timeoutMs: 1500 } },
    );
    await eventually(() => one.all('ask').length === 1);
    await new Promise((resolve) => setTimeout(resolve, 2000));
    one.respond({ approved: true });
    expect(await one.result).toEqual({});
  });

  test('a question without an input for its answer fails and says why', async () => {
    const { one, left } = attempt(`say({ type: 'ask', id: 1, title: 'ok?' }); setInterval(() => {}, 1000)`);
    await expect(one.result).rejects.toThrow(/asked "ok\?", and has no input/);
    expect(left()).toEqual([]);
  });

  test('an error event fails with its message', async () => {
    const { one } = attempt(`say({ type: 'error', message: 'no such branch' })`);
    await expect(one.result).rejects.toThrow('command "it" failed: no such branch');
  });

  test('usage is reported as it goes, so that it counts also when the command fails', async () => {
    const { one } = attempt(
      `say({ type: 'usage', usage: { inputTokens: 5 } }); say({ type: 'usage', usage: { inputTokens: 9, costUsd: 1 } });
       say({ type: 'result', usage: { outputTokens: 2 } }); process.exitCode = 3;`,
    );
    await expect(one.result).rejects.toThrow('exited with code 3');
    expect(one.all('usage')).toEqual([{ inputTokens: 5 }, { inputTokens: 9, costUsd: 1 }, { outputTokens: 2 }]);
  });

  test('a command that runs on after its result is ended, and has succeeded', async () => {
    const body = `say({ type: 'result', text: 'ok' }); setInterval(() => {}, 1000)`;
    const { one, left } = attempt(body, { exitGraceMs: 200 });
    expect(await one.result).toEqual({ finalOutput: 'ok' });
    expect(left()).toEqual([]);
  });
});

describe('secrets and environment', () => {
  test('only what is listed reaches it; secret values reach nobody', async () => {
    process.env.HOLDFAST_TEST_CANARY = 'canary';
    process.env.HOLDFAST_TEST_PASSED = 'passed on';
    const { one } = attempt(
      `const all = JSON.stringify(process.env);
       say({ type: 'text', text: all.slice(0, all.indexOf('hunter2') + 3) }); say({ type: 'text', text: all.slice(all.indexOf('hunter2') + 3) });
       say({ type: 'event', name: 'x.env', all }); say({ type: 'result', text: all });`,
      { command: { secretEnv: { API_KEY: 'hunter2-and-more' }, passEnv: ['HOLDFAST_TEST_PASSED'] } },
    );
    const result = await one.result;
    expect(one.text).toContain('passed on');
    expect(one.text).toContain('"HOLDFAST_EXECUTION_ID":"exec_test"');
    const all = JSON.stringify([one.did, result]);
    expect(all).not.toContain('hunter2');
    expect(all).not.toContain('canary');
    expect(Object.keys(JSON.parse(one.text)).sort()).toEqual(
      [
        'API_KEY',
        'HOLDFAST_CONVERSATION_ID',
        'HOLDFAST_EXECUTION_ID',
        'HOLDFAST_PROCESS',
        'HOLDFAST_TEST_PASSED',
        'HOLDFAST_TEST_WORD',
      ].sort(),
    );
  });
});

test('what is wrong with the configuration or the request is said at once', () => {
  const good = { command: 'cat', cwd: tmpdir(), output: 'text' as const };
  expect(() => commandProvider({ commands: {} })).toThrow(/names no command/);
  expect(() => commandProvider({ commands: { a: { ...good, command: './cat' } } })).toThrow(/absolute path/);
  expect(() => commandProvider({ commands: { a: { ...good, input: 'ndjson' } } })).toThrow(/goes with output/);
  expect(() => commandProvider({ commands: { a: good }, defaultCommand: 'b' })).toThrow(/"b" is not in/);
  const two = commandProvider({ commands: { a: good, b: { ...good, ...asking } } });
  expect(two.config.safeParse({}).success).toBe(false);
  expect(two.config.safeParse({ command: 'a', args: ['-rf'] }).success).toBe(false);
  expect(two.config.safeParse({ command: 'b' }).success).toBe(true);
  expect(two.manifest.capabilities).toMatchObject({ 'action.approval': 'degraded', 'artifact.list': 'degraded' });
});
