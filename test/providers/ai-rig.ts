/** The `ai` provider with tools whose runs are counted in a file, so that they are seen across processes. */
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { type AiConfig, type AiOptions, aiProvider, aiTool } from '../../providers/ai/ai.js';
import type { Provider } from '../../providers/provider.js';

export const KEY_VARIABLE = 'HOLDFAST_TEST_MODEL_KEY';

export interface RigOptions {
  readonly url: string;
  readonly apiKey: string;
  /** Each run of a tool is a line in it. */
  readonly runs: string;
  readonly options?: Partial<AiOptions>;
}

const word = z.strictObject({ word: z.string().min(1) });

/**
 * Models: `local`. Tools: `echo`, `deploy` (asks), `slow`, `steady` and `careful` (take four seconds; the latter two are
 * idempotent, and the last one asks), `fail`.
 */
export function rig({ url, apiKey, runs, options }: RigOptions): Provider<AiConfig> {
  process.env[KEY_VARIABLE] = apiKey;
  const note = (line: string) => appendFileSync(runs, `${line}\n`);
  const slow = (name: string, idempotent: boolean, needsApproval = false) =>
    aiTool({
      description: 'Takes four seconds.',
      input: word,
      needsApproval,
      idempotent,
      execute: async ({ word }, { signal }) => {
        note(`${name} ${word} begun`);
        await delay(4000, undefined, { signal });
        note(`${name} ${word} done`);
        return `${name} ${word}`;
      },
    });
  return aiProvider({
    models: { local: { provider: 'openai-compatible', baseURL: url, model: 'local-1', apiKeyEnv: KEY_VARIABLE } },
    tools: {
      echo: aiTool({
        description: 'Says the word.',
        input: word,
        needsApproval: false,
        execute: ({ word }) => {
          note(`echo ${word}`);
          return `echo says ${word}`;
        },
      }),
      deploy: aiTool({
        description: 'Deploys a version.',
        input: z.strictObject({ version: z.string(), force: z.boolean().default(false) }),
        needsApproval: ({ version }) => version !== 'safe',
        execute: ({ version, force }, { callId }) => {
          note(`deploy ${version} ${callId}`);
          return { deployed: version, force };
        },
      }),
      slow: slow('slow', false),
      steady: slow('steady', true),
      careful: slow('careful', true, true),
      fail: aiTool({
        description: 'Fails.',
        input: z.strictObject({}),
        needsApproval: false,
        execute: () => {
          throw new Error(`it is broken, and knows ${process.env[KEY_VARIABLE]}`);
        },
      }),
    },
    ...options,
  });
}

export function runsIn(file: string): string[] {
  return existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : [];
}

export type Respond = (response: ServerResponse, body: { messages: unknown[] }, request: IncomingMessage) => void;

export interface RawModel {
  readonly url: string;
  readonly apiKey: string;
  readonly bodies: { messages: { role: string; content?: unknown; tool_calls?: { id: string }[] }[] }[];
  stop(): Promise<void>;
}

/** A model server that answers as told: the nth request by the nth function, further ones by the last. */
export async function rawModel(...answers: Respond[]): Promise<RawModel> {
  const bodies: RawModel['bodies'] = [];
  const server = createServer(async (request, response) => {
    let text = '';
    for await (const chunk of request) text += chunk;
    const body = JSON.parse(text);
    bodies.push(body);
    answers[Math.min(bodies.length, answers.length) - 1]!(response, body, request);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    apiKey: 'sk-raw-0123456789abcdef',
    bodies,
    stop: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

interface SseOptions {
  /** False: the connection is cut after the deltas. */
  readonly end?: boolean;
  readonly finish?: string | null;
}

/** A streamed answer of these deltas. */
export function sse(deltas: object[], { end = true, finish = 'stop' }: SseOptions = {}): Respond {
  return (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const write = (choice: object, more: object = {}) =>
      response.write(
        `data: ${JSON.stringify({ id: 'x', created: 1, model: 'm', object: 'chat.completion.chunk', choices: [choice], ...more })}\n\n`,
      );
    for (const delta of deltas) write({ index: 0, delta, finish_reason: null });
    if (!end) {
      setTimeout(() => response.destroy(), 50);
      return;
    }
    const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 };
    if (finish !== null) write({ index: 0, delta: {}, finish_reason: finish }, { usage });
    response.end('data: [DONE]\n\n');
  };
}

export const text = (content: string) => ({ content });
export const call = (name: string, args: string, id = `call-${name}`, index = 0) => ({
  tool_calls: [{ index, id, type: 'function', function: { name, arguments: args } }],
});

export function json(status: number, body: object, headers: Record<string, string> = {}): Respond {
  return (response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
  };
}
