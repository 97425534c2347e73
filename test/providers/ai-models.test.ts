import { afterEach, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { type AiOptions, type AiTool, aiProvider, aiTool } from '../../providers/ai/ai.js';
import { encodeEntry, foldJournal } from '../../providers/ai/journal.js';
import { messagesOf } from '../../providers/ai/messages.js';
import { Attempt } from '../support/scripted-context.js';
import { type RawModel, type Respond, rawModel, sse, text } from './ai-rig.js';

let model: RawModel | undefined;
afterEach(async () => {
  await model?.stop();
  model = undefined;
});

const echo = aiTool({
  description: 'Says it.',
  input: z.strictObject({ word: z.string() }),
  needsApproval: false,
  execute: ({ word }) => word,
});

/** An answer of Anthropic's API with signed thoughts and a call. */
const anthropic: Respond = (response, body) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  const send = (type: string, data: object) =>
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  const block = (index: number, start: object, ...deltas: object[]) => {
    send('content_block_start', { index, content_block: start });
    for (const delta of deltas) send('content_block_delta', { index, delta });
    send('content_block_stop', { index });
  };
  const first = body.messages.length === 1;
  const usage = { input_tokens: 7, output_tokens: 1 };
  send('message_start', { message: { id: 'm', type: 'message', role: 'assistant', model: 'x', content: [], usage } });
  if (first) {
    block(
      0,
      { type: 'thinking', thinking: '', signature: '' },
      { type: 'thinking_delta', thinking: 'hm' },
      { type: 'signature_delta', signature: 'signed' },
    );
    block(
      1,
      { type: 'tool_use', id: 'toolu_1', name: 'echo', input: {} },
      { type: 'input_json_delta', partial_json: '{"word":"hi"}' },
    );
  } else block(0, { type: 'text', text: '' }, { type: 'text_delta', text: 'done' });
  send('message_delta', { delta: { stop_reason: first ? 'tool_use' : 'end_turn' }, usage: { output_tokens: 5 } });
  send('message_stop', {});
  response.end();
};

test("Anthropic's API: thoughts go back with their signature, and the key is in no event", async () => {
  model = await rawModel(anthropic);
  process.env.HOLDFAST_TEST_ANTHROPIC_KEY = 'sk-ant-0123456789';
  const provider = aiProvider({
    models: { it: { provider: 'anthropic', model: 'x', baseURL: model.url, apiKeyEnv: 'HOLDFAST_TEST_ANTHROPIC_KEY' } },
    tools: { echo },
  });
  const one = new Attempt(provider);
  expect(await one.result).toEqual({ usage: { inputTokens: 14, outputTokens: 10 } });
  expect(one.text).toBe('done');
  expect(model.bodies[1]!.messages[1]).toMatchObject({
    role: 'assistant',
    content: [
      { type: 'thinking', thinking: 'hm', signature: 'signed' },
      { type: 'tool_use', id: 'toolu_1', name: 'echo', input: { word: 'hi' } },
    ],
  });
  expect(JSON.stringify(one.did)).not.toContain('sk-ant-0123456789');
});

test('any other provider of the SDK can be brought along', async () => {
  model = await rawModel(sse([text('hi')]));
  const { url } = model;
  const create = async () => {
    const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
    return createOpenAICompatible({ name: 'own', baseURL: url })('x');
  };
  const one = new Attempt(aiProvider({ models: { it: { provider: 'sdk', create } }, instructions: 'Be brief.' }), {
    config: { instructions: 'In French.' },
  });
  await one.result;
  expect(one.text).toBe('hi');
  expect(model.bodies[0]!.messages[0]).toEqual({ role: 'system', content: 'Be brief.\n\nIn French.' });
});

test('earlier turns of the conversation stand before the prompt', () => {
  const transcript = [
    { executionId: 'a', input: 'one', output: 'uno' },
    { executionId: 'b', input: { odd: 2 }, output: '' },
  ];
  expect(messagesOf(transcript as never, 'three', [])).toEqual([
    { role: 'user', content: 'one' },
    { role: 'assistant', content: 'uno' },
    { role: 'user', content: '{"odd":2}' },
    { role: 'user', content: 'three' },
  ]);
});

test('an answer over the size of one entry is journaled in pieces, and read back whole or not at all', () => {
  const usage = { inputTokens: 1, outputTokens: 2, reasoningTokens: 0, cachedInputTokens: 0 };
  const said = '"😀\\\n'.repeat(100_000);
  const pieces = encodeEntry({ kind: 'turn', parts: [{ text: said }], finish: 'stop', usage, requests: 1, ms: 5 });
  expect(pieces.length).toBeGreaterThan(3);
  for (const piece of pieces) expect(Buffer.byteLength(JSON.stringify(piece))).toBeLessThan(256 * 1024);
  expect(foldJournal(pieces).turns[0]?.parts).toEqual([{ text: said }]);
  expect(foldJournal(pieces.slice(0, -1)).turns).toEqual([]);
  expect(foldJournal([...pieces.slice(0, -1), ...pieces]).turns).toHaveLength(1);
  expect(() => foldJournal([{ kind: 'other' }])).toThrow(/does not know/);
});

describe('what is wrong with the configuration is said when the provider is made', () => {
  const local = { provider: 'openai-compatible', baseURL: 'http://127.0.0.1:1/v1', model: 'x' } as const;
  const wrong = (options: Partial<AiOptions>) => () => aiProvider({ models: { local }, ...options });
  test.each<[string, Partial<AiOptions>, RegExp]>([
    ['no model', { models: {} }, /names no model/],
    [
      'a key that is not set',
      { models: { local: { ...local, apiKeyEnv: 'NO_SUCH_KEY' } } },
      /variable NO_SUCH_KEY is not set/,
    ],
    ['no address', { models: { local: { ...local, baseURL: 'file:///etc/passwd' } } }, /http or https/],
    ['a default that is not there', { defaultModel: 'other' }, /"other" is not in "models"/],
    [
      'a tool without a rule',
      { tools: { x: { ...echo, needsApproval: undefined } as unknown as AiTool } },
      /must be a tool/,
    ],
    [
      'a tool whose input is no object',
      { tools: { x: { ...echo, input: z.string() } as unknown as AiTool } },
      /schema of an object/,
    ],
    ['a bad name', { tools: { 'a b': echo } }, /a tool name is/],
    ['a limit', { limits: { maxSteps: 0 } }, /limits.maxSteps/],
  ])('%s', (_, options, message) => {
    expect(wrong(options)).toThrow(message);
  });

  test('a request picks by name, and only lowers limits', () => {
    const { config, manifest } = aiProvider({ models: { a: local, b: local }, tools: { echo } });
    expect(config.safeParse({}).success).toBe(false);
    expect(config.safeParse({ model: 'a', tools: ['echo'], maxSteps: 3 }).success).toBe(true);
    for (const bad of [
      { model: 'c' },
      { model: 'a', tools: ['rm'] },
      { model: 'a', mcpServers: ['x'] },
      { model: 'a', maxSteps: 51 },
      { model: 'a', baseURL: 'http://x' },
    ])
      expect(config.safeParse(bad).success).toBe(false);
    expect(manifest.capabilities).toMatchObject({
      'extension.mcp': 'unsupported',
      'conversation.continuity': 'emulated',
    });
  });
});
