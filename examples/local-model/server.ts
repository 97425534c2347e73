/**
 * A language model for demos and tests: an OpenAI-compatible server on 127.0.0.1 that answers by a script.
 *
 * It lets a real agent run its whole loop (text, tool calls, results) with no account and no network. `script.ts`
 * describes what it answers, and how a prompt directs it.
 */
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Answer, ChatRequest, isTitleRequest, promptScript, type Script } from './script.js';

export interface LocalModelOptions {
  /** What to answer. By default what the prompt directs, see `script.ts`. */
  script?: Script;
  /** Port on 127.0.0.1; a free one by default. */
  port?: number;
}

/** A chat request that was accepted, as it stands now. */
export interface LoggedRequest {
  body: ChatRequest;
  /** It asked for a title: no turn of the conversation. */
  title: boolean;
  state: 'answering' | 'answered' | 'aborted';
  /** The client went away before the answer was complete. */
  aborted: boolean;
  /** Deltas of text that were sent so far. */
  deltas: number;
}

export interface LocalModel {
  /** Base URL, ending in `/v1`. */
  url: string;
  apiKey: string;
  /** The one model that it serves. */
  model: string;
  /** All chat requests, oldest first. */
  requests: readonly LoggedRequest[];
  /** The first request, of all so far and all to come, that fits. Rejects after `timeoutMs` (default 10,000). */
  waitFor(fits: (request: LoggedRequest) => boolean, timeoutMs?: number): Promise<LoggedRequest>;
  /** Ends it with all its connections. */
  stop(): Promise<void>;
}

export const LOCAL_MODEL = 'local-1';
const MAX_BODY_BYTES = 32 * 1024 * 1024;

/** Starts the model with a random key. @throws Error when the given port is taken */
export async function startLocalModel(options: LocalModelOptions = {}): Promise<LocalModel> {
  const script = options.script ?? promptScript;
  const apiKey = `sk-local-${randomBytes(16).toString('hex')}`;
  const requests: LoggedRequest[] = [];
  const watchers = new Set<() => void>();
  const changed = () => {
    for (const watcher of watchers) watcher();
  };

  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      if (!response.headersSent) sendError(response, 500, 'server_error', String(error));
      else response.destroy();
    });
  });

  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.headers.authorization !== `Bearer ${apiKey}`) {
      return sendError(response, 401, 'invalid_request_error', 'Incorrect API key provided.', 'invalid_api_key');
    }
    const path = (request.url ?? '').split('?')[0];
    if (request.method === 'GET' && path === '/v1/models') {
      const data = [{ id: LOCAL_MODEL, object: 'model', created: 0, owned_by: 'local' }];
      return sendJson(response, 200, { object: 'list', data });
    }
    if (request.method !== 'POST' || path !== '/v1/chat/completions') {
      return sendError(response, 404, 'invalid_request_error', `There is no ${request.method} ${path}.`);
    }
    const body = await readBody(request);
    if (typeof body === 'string') return sendError(response, 400, 'invalid_request_error', body);

    const logged: LoggedRequest = { body, title: isTitleRequest(body), state: 'answering', aborted: false, deltas: 0 };
    requests.push(logged);
    const gone = new AbortController();
    response.once('close', () => {
      if (response.writableFinished) logged.state = 'answered';
      else {
        logged.state = 'aborted';
        logged.aborted = true;
        gone.abort();
      }
      changed();
    });
    changed();
    const sent = () => {
      logged.deltas += 1;
      changed();
    };
    await reply(response, body, script(body), gone.signal, sent);
  }

  server.listen(options.port ?? 0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the local model has no port');

  return {
    url: `http://127.0.0.1:${address.port}/v1`,
    apiKey,
    model: LOCAL_MODEL,
    requests,
    waitFor: (fits, timeoutMs = 10_000) =>
      new Promise((resolve, reject) => {
        const check = () => {
          const found = requests.find(fits);
          if (!found) return;
          watchers.delete(check);
          clearTimeout(limit);
          resolve(found);
        };
        const limit = setTimeout(() => {
          watchers.delete(check);
          reject(new Error(`no such request came within ${timeoutMs} ms (${requests.length} others did)`));
        }, timeoutMs);
        watchers.add(check);
        check();
      }),
    stop: async () => {
      if (!server.listening) return;
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** The parsed body, or what is wrong with it. */
async function readBody(request: IncomingMessage): Promise<ChatRequest | string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += (chunk as Buffer).length;
    if (size > MAX_BODY_BYTES) return `The body is larger than ${MAX_BODY_BYTES} bytes.`;
    chunks.push(chunk as Buffer);
  }
  try {
    const parsed = ChatRequest.safeParse(JSON.parse(Buffer.concat(chunks).toString('utf8')));
    return parsed.success ? parsed.data : parsed.error.issues.map((issue) => issue.message).join('; ');
  } catch {
    return 'The body is not JSON.';
  }
}

async function reply(
  response: ServerResponse,
  request: ChatRequest,
  answer: Answer,
  gone: AbortSignal,
  sent: () => void,
): Promise<void> {
  if (answer.kind === 'hang') return;
  if (answer.kind === 'fail') {
    const type = answer.status >= 500 ? 'server_error' : 'invalid_request_error';
    return sendError(response, answer.status, type, answer.message);
  }
  if (request.stream) await stream(response, request, answer, gone, sent);
  else sendWhole(response, request, answer);
}

type Spoken = Exclude<Answer, { kind: 'hang' | 'fail' }>;

/** The answer as server-sent events: a tool call comes as its id and name, then its arguments in pieces. */
async function stream(
  response: ServerResponse,
  request: ChatRequest,
  answer: Spoken,
  gone: AbortSignal,
  sent: () => void,
): Promise<void> {
  const base = { ...envelope(request), object: 'chat.completion.chunk' };
  const write = (data: unknown) => response.write(`data: ${JSON.stringify(data)}\n\n`);
  const delta = (value: unknown, finish: string | null = null) =>
    write({ ...base, choices: [{ index: 0, delta: value, finish_reason: finish }] });

  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' });
  delta({ role: 'assistant', content: '' });
  if (answer.kind === 'text') for (const piece of pieces(answer.thought ?? '')) delta({ reasoning_content: piece });
  const deltas = answer.kind === 'text' ? (answer.deltas ?? pieces(answer.text)) : pieces(answer.text);
  const delayMs = answer.kind === 'text' ? (answer.delayMs ?? 0) : 0;
  for (const piece of deltas) {
    if (delayMs > 0) await sleep(delayMs, undefined, { signal: gone }).catch(() => {});
    if (gone.aborted) return;
    delta({ content: piece });
    sent();
  }
  if (answer.kind === 'tools') {
    for (const [index, call] of toolCalls(answer).entries()) {
      const { arguments: text, name } = call.function;
      delta({ tool_calls: [{ ...call, index, function: { name, arguments: '' } }] });
      for (const piece of pieces(text)) delta({ tool_calls: [{ index, function: { arguments: piece } }] });
    }
  }
  delta({}, finishReason(answer));
  write({ ...base, choices: [], usage: usage(request, answer) });
  response.end('data: [DONE]\n\n');
}

function sendWhole(response: ServerResponse, request: ChatRequest, answer: Spoken): void {
  const message = {
    role: 'assistant',
    content: answer.text,
    ...(answer.kind === 'tools' ? { tool_calls: toolCalls(answer) } : {}),
  };
  sendJson(response, 200, {
    ...envelope(request),
    object: 'chat.completion',
    choices: [{ index: 0, message, finish_reason: finishReason(answer) }],
    usage: usage(request, answer),
  });
}

function envelope(request: ChatRequest) {
  return { id: `chatcmpl-${randomUUID()}`, created: Math.floor(Date.now() / 1000), model: request.model };
}

function toolCalls(answer: Extract<Answer, { kind: 'tools' }>) {
  return answer.calls.map((call) => ({
    id: `call_${randomBytes(9).toString('hex')}`,
    type: 'function' as const,
    function: { name: call.name, arguments: JSON.stringify(call.arguments) },
  }));
}

function finishReason(answer: Spoken): string {
  return answer.kind === 'tools' ? 'tool_calls' : 'stop';
}

/** A token is about four characters: enough for a count that grows with the text. */
function usage(request: ChatRequest, answer: Spoken) {
  const tokens = (value: unknown) => Math.max(1, Math.ceil(JSON.stringify(value).length / 4));
  const prompt = tokens(request.messages);
  const completion = tokens(answer.kind === 'tools' ? [answer.text, answer.calls] : answer.text);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion };
}

/** About four deltas of whole characters; long text in pieces of at most 2,000. */
function pieces(text: string): string[] {
  const characters = [...text];
  const length = Math.min(2_000, Math.max(1, Math.ceil(characters.length / 4)));
  const result: string[] = [];
  for (let at = 0; at < characters.length; at += length) result.push(characters.slice(at, at + length).join(''));
  return result;
}

function sendError(response: ServerResponse, status: number, type: string, message: string, code?: string): void {
  sendJson(response, status, { error: { message, type, param: null, code: code ?? null } });
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' });
  response.end(JSON.stringify(body));
}
