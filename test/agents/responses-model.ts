/** The local model's script behind OpenAI's Responses API, as Codex speaks it: the same directives, streamed. */
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { type Answer, promptScript } from '../../examples/local-model/script.js';

export interface ResponsesModel {
  /** Base URL, ending in `/v1`. */
  readonly url: string;
  readonly apiKey: string;
  /** Turns that were answered to their end, and those whose client went away. */
  readonly answered: number;
  readonly aborted: number;
  /** What each request said, oldest first. */
  readonly asked: readonly (readonly { readonly role: string; readonly content: string }[])[];
  stop(): Promise<void>;
}

const inputItem = z.looseObject({
  type: z.string().optional(),
  role: z.string().optional(),
  content: z.union([z.string(), z.array(z.looseObject({ text: z.string().optional() }))]).optional(),
  output: z.unknown().optional(),
});
const requestSchema = z.looseObject({
  model: z.string(),
  input: z.array(inputItem),
  tools: z.array(z.unknown()).optional(),
});
type Item = z.infer<typeof inputItem>;

const textOf = ({ content }: Item): string =>
  typeof content === 'string' ? content : (content ?? []).map(({ text }) => text ?? '').join('\n');

/** What the script reads: who said what. Several items of one answer are one message. */
function messages(input: readonly Item[]): { role: string; content: string }[] {
  const said: { role: string; content: string }[] = [];
  for (const item of input) {
    const { type = 'message' } = item;
    if (type.endsWith('_output')) {
      const output = typeof item.output === 'string' ? item.output : JSON.stringify(item.output);
      said.push({ role: 'tool', content: output });
    } else if (type !== 'message' || item.role === 'assistant') {
      if (said.at(-1)?.role !== 'assistant') said.push({ role: 'assistant', content: textOf(item) });
    } else said.push({ role: item.role ?? 'user', content: textOf(item) });
  }
  return said;
}

export async function startResponsesModel(): Promise<ResponsesModel> {
  const apiKey = `sk-local-${randomBytes(16).toString('hex')}`;
  const counts = { answered: 0, aborted: 0 };
  const asked: { role: string; content: string }[][] = [];
  const server = createServer(async (request, response) => {
    const json = (status: number, body: object) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    try {
      if (request.headers.authorization !== `Bearer ${apiKey}`) return json(401, { error: { message: 'no key' } });
      if (request.url !== '/v1/responses') return json(404, { error: { message: 'not found' } });
      const chunks: Buffer[] = [];
      for await (const chunk of request) chunks.push(chunk as Buffer);
      const { model, input } = requestSchema.parse(JSON.parse(Buffer.concat(chunks).toString()));
      const gone = new AbortController();
      response.once('close', () => {
        counts[response.writableFinished ? 'answered' : 'aborted'] += 1;
        gone.abort();
      });
      const said = messages(input);
      asked.push(said);
      const answer = promptScript({ model, messages: said, tools: [{}] });
      if (answer.kind === 'hang') return;
      if (answer.kind === 'fail') return json(answer.status, { error: { message: answer.message } });
      await stream(response, answer, gone.signal);
    } catch (error) {
      if (!response.headersSent) json(500, { error: { message: String(error) } });
      else response.destroy();
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  const port = typeof address === 'object' && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}/v1`,
    apiKey,
    asked,
    get answered() {
      return counts.answered;
    },
    get aborted() {
      return counts.aborted;
    },
    async stop() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function stream(
  response: ServerResponse,
  answer: Exclude<Answer, { kind: 'hang' | 'fail' }>,
  gone: AbortSignal,
): Promise<void> {
  const id = `resp_${randomUUID()}`;
  const write = (type: string, data: object) =>
    response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  write('response.created', { response: { id } });
  if (answer.kind === 'text') {
    const item = { type: 'message', role: 'assistant', id: `msg_${randomUUID()}` };
    write('response.output_item.added', { output_index: 0, item: { ...item, status: 'in_progress', content: [] } });
    for (const delta of answer.deltas ?? [answer.text]) {
      if (answer.delayMs) await sleep(answer.delayMs, undefined, { signal: gone }).catch(() => undefined);
      if (gone.aborted) return;
      write('response.output_text.delta', { item_id: item.id, output_index: 0, content_index: 0, delta });
    }
    const content = [{ type: 'output_text', text: answer.text, annotations: [] }];
    write('response.output_item.done', { output_index: 0, item: { ...item, status: 'completed', content } });
  } else
    for (const [index, { arguments: given }] of answer.calls.entries()) {
      // Codex's own tool; outside of its sandbox, so that it asks.
      const call = {
        cmd: given.command,
        sandbox_permissions: 'require_escalated',
        justification: 'the prompt asks for it',
      };
      const item = {
        type: 'function_call',
        id: `fc_${randomUUID()}`,
        call_id: `call_${randomBytes(9).toString('hex')}`,
        name: 'exec_command',
        arguments: JSON.stringify(call),
        status: 'completed',
      };
      write('response.output_item.done', { output_index: index, item });
    }
  const usage = {
    input_tokens: 30,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 12,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 42,
  };
  write('response.completed', { response: { id, usage } });
  response.end();
}
