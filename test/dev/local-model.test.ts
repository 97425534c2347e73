import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type LocalModel, startLocalModel } from '../../examples/local-model/server.js';

let model: LocalModel;
beforeEach(async () => {
  model = await startLocalModel();
});
afterEach(() => model.stop());

type Message = { role: string; content: string | { type: string; text: string }[] | null; tool_call_id?: string };
const user = (content: string): Message => ({ role: 'user', content });
const assistant: Message = { role: 'assistant', content: '' };
const tool = (content: string): Message => ({ role: 'tool', content, tool_call_id: 'x' });
const TOOLS = [{ type: 'function', function: { name: 'bash', parameters: {} } }];

function post(body: unknown, init: { key?: string; signal?: AbortSignal } = {}): Promise<Response> {
  return fetch(`${model.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${init.key ?? model.apiKey}`, 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(init.signal ? { signal: init.signal } : {}),
  });
}

interface Delta {
  content?: string;
  reasoning_content?: string;
  tool_calls?: { index: number; id?: string; function: { name?: string; arguments: string } }[];
}
interface Chunk {
  choices: { delta: Delta; finish_reason: string | null }[];
  usage?: { prompt_tokens: number; completion_tokens: number; total_tokens: number };
}

/** Asks for a stream and puts it together as a client does. */
async function ask(messages: Message[], tools: unknown[] = TOOLS) {
  const response = await post({ model: model.model, stream: true, messages, tools });
  expect(response.headers.get('content-type')).toContain('text/event-stream');
  const lines = (await response.text()).split('\n\n').filter((line) => line !== '');
  expect(lines.pop()).toBe('data: [DONE]');
  const chunks = lines.map((line) => JSON.parse(line.replace(/^data: /, '')) as Chunk);
  const deltas = chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.delta));
  const texts = deltas.map((delta) => delta.content ?? '').filter((text) => text !== '');
  const calls: { id: string; name: string; arguments: string; pieces: number }[] = [];
  for (const part of deltas.flatMap((delta) => delta.tool_calls ?? [])) {
    calls[part.index] ??= { id: part.id ?? '', name: '', arguments: '', pieces: 0 };
    const call = calls[part.index]!;
    call.name += part.function.name ?? '';
    call.arguments += part.function.arguments;
    if (part.function.arguments !== '') call.pieces += 1;
  }
  return {
    texts,
    text: texts.join(''),
    thought: deltas.map((delta) => delta.reasoning_content ?? '').join(''),
    calls,
    finish: chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.finish_reason)).findLast((reason) => reason),
    usage: chunks.at(-1)?.usage,
  };
}

describe('the local model', () => {
  test('streams text and a tool call in pieces, and after the result text and the end', async () => {
    const first = await ask([user('please do something')]);
    expect(first.texts.length).toBeGreaterThan(2);
    expect(first.finish).toBe('tool_calls');
    expect(first.calls).toHaveLength(1);
    expect(first.calls[0]).toMatchObject({ name: 'bash', id: expect.stringMatching(/^call_/) });
    expect(first.calls[0]!.pieces).toBeGreaterThan(2);
    expect(JSON.parse(first.calls[0]!.arguments)).toMatchObject({ command: 'echo hello from the local model' });
    expect(first.usage?.total_tokens).toBe(first.usage!.prompt_tokens + first.usage!.completion_tokens);

    const second = await ask([user('please do something'), assistant, tool('it worked')]);
    expect(second.texts.length).toBeGreaterThan(2);
    expect(second).toMatchObject({ text: 'Done. The tool said: it worked', finish: 'stop', calls: [] });
  });

  test('asks for the key', async () => {
    const response = await post({ model: model.model, messages: [user('hi')] }, { key: 'sk-other' });
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ error: { type: 'invalid_request_error', code: 'invalid_api_key' } });
    expect((await fetch(`${model.url}/models`)).status).toBe(401);
    expect(model.requests).toEqual([]);
    const models = await fetch(`${model.url}/models`, { headers: { authorization: `Bearer ${model.apiKey}` } });
    expect(await models.json()).toMatchObject({ data: [{ id: model.model }] });
  });

  test('answers a title call with a few words, which is no turn', async () => {
    expect(await ask([user('[bash:ls]')], [])).toMatchObject({ text: 'A local session', finish: 'stop', calls: [] });
    expect(await ask([user('[bash:ls]')])).toMatchObject({ finish: 'tool_calls' });
    expect(model.requests.map((request) => request.title)).toEqual([true, false]);
  });

  test('follows the directives of the last user message, one answer each', async () => {
    const earlier = [user('[say:an earlier turn]'), assistant];
    expect(await ask([...earlier, user('[say:Just this é 😀.]')])).toMatchObject({
      text: 'Just this é 😀.',
      finish: 'stop',
    });
    expect(await ask([user('[think:well]')])).toMatchObject({ thought: 'well', finish: 'stop' });
    expect((await ask([user('[slow:3:1]')])).texts).toEqual(['word1 ', 'word2 ', 'word3 ']);
    expect((await ask([user('[big:100000]')])).text).toHaveLength(100_000);

    const prompt: Message = {
      role: 'user',
      content: [{ type: 'text', text: 'do [bash:[ -f a ] && cat a] then [say:Bye.]' }],
    };
    const call = await ask([...earlier, prompt]);
    expect(JSON.parse(call.calls[0]!.arguments)).toMatchObject({ command: '[ -f a ] && cat a' });
    expect(await ask([...earlier, prompt, assistant, tool('')])).toMatchObject({ text: 'Bye.', finish: 'stop' });

    const two = await ask([user('[two-tools:echo a; echo b]')]);
    expect(two.calls.map((one) => JSON.parse(one.arguments).command)).toEqual(['echo a', 'echo b']);
    expect(new Set(two.calls.map((one) => one.id)).size).toBe(2);

    const named = await ask([user('[tool:write:{"filePath":"a.txt","content":"x"}]')]);
    expect(named.calls[0]).toMatchObject({ name: 'write', arguments: '{"filePath":"a.txt","content":"x"}' });
  });

  test('fails as told, and on what is no chat request', async () => {
    const failed = await post({ model: model.model, tools: TOOLS, stream: true, messages: [user('[fail:400]')] });
    expect(failed.status).toBe(400);
    expect(await failed.json()).toMatchObject({ error: { type: 'invalid_request_error' } });
    const broken = await post({ model: model.model, tools: TOOLS, messages: [user('[fail:503]')] });
    expect([broken.status, await broken.json()]).toMatchObject([503, { error: { type: 'server_error' } }]);
    expect((await post('{')).status).toBe(400);
    expect((await post({ model: model.model, messages: [] })).status).toBe(400);
  });

  test('answers whole when no stream is asked for', async () => {
    const response = await post({ model: model.model, tools: TOOLS, messages: [user('[bash:ls]')] });
    expect(await response.json()).toMatchObject({
      object: 'chat.completion',
      choices: [
        { finish_reason: 'tool_calls', message: { tool_calls: [{ type: 'function', function: { name: 'bash' } }] } },
      ],
      usage: { total_tokens: expect.any(Number) },
    });
  });

  test('sees that its client went away, while streaming and while hanging', async () => {
    const gone = new AbortController();
    const body = { model: model.model, stream: true, tools: TOOLS, messages: [user('[slow:10000:5]')] };
    await post(body, { signal: gone.signal });
    await model.waitFor((request) => request.deltas > 3);
    gone.abort();
    const seen = await model.waitFor((request) => request.aborted);
    expect(seen.state).toBe('aborted');
    const { deltas } = seen;
    expect(deltas).toBeLessThan(10_000);

    const hanging = new AbortController();
    const answer = post({ ...body, messages: [user('[hang]')] }, { signal: hanging.signal });
    const request = await model.waitFor((one) => one !== seen && one.state === 'answering');
    hanging.abort();
    await expect(answer).rejects.toThrow();
    await model.waitFor((one) => one === request && one.aborted);
    expect(seen.deltas).toBe(deltas);
  });

  test('runs a script of the caller', async () => {
    const own = await startLocalModel({ script: (request) => ({ kind: 'text', text: `${request.messages.length}` }) });
    const response = await fetch(`${own.url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${own.apiKey}` },
      body: JSON.stringify({ model: 'm', messages: [user('a'), user('b')] }),
    });
    expect(await response.json()).toMatchObject({ choices: [{ message: { content: '2' } }] });
    await own.stop();
    await own.stop();
  });
});
