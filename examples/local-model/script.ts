/**
 * What the local model answers. It follows the prompt's text, so that a test or a demo says what it wants to see.
 *
 * Directives in the last user message, in order; each is one answer of the model, so `[bash:ls][say:Done.]` runs a
 * command and then says "Done.":
 *
 * | directive | answer |
 * |---|---|
 * | `[say:TEXT]` | that text, in several deltas |
 * | `[think:TEXT]` | that text as reasoning, then a short answer |
 * | `[slow:N:MS]` | N deltas of text, MS milliseconds apart |
 * | `[big:BYTES]` | that many bytes of text |
 * | `[bash:COMMAND]` | some text and a call of the tool `bash` |
 * | `[two-tools:CMD1;CMD2]` | two calls of `bash` in one answer |
 * | `[tool:NAME:JSON]` | a call of that tool with those arguments |
 * | `[fail:STATUS]` | an HTTP error: 4xx is an `invalid_request_error`, 5xx a `server_error` |
 * | `[hang]` | nothing, until the client goes away |
 *
 * Without a directive: text and one call of `bash` (`echo hello from the local model`). After the last directive, or
 * without one after the tool's result: text that quotes the result, and the end of the turn.
 *
 * A request without `tools` asks for a session's title; it gets a few words and counts as no answer.
 */
import { z } from 'zod';

const TextPart = z.looseObject({ type: z.string(), text: z.string().optional() });

const Message = z.looseObject({
  role: z.string(),
  content: z.union([z.string(), z.array(TextPart), z.null()]).optional(),
});

/** The part of a chat completions request that the script reads; everything else is kept as it came. */
export const ChatRequest = z.looseObject({
  model: z.string(),
  messages: z.array(Message).min(1),
  stream: z.boolean().optional(),
  tools: z.array(z.unknown()).optional(),
});
export type ChatRequest = z.infer<typeof ChatRequest>;

export interface ToolCall {
  name: string;
  arguments: Record<string, unknown>;
}

/** One answer of the model. `delayMs` passes before each delta of the text. */
export type Answer =
  | { kind: 'text'; text: string; thought?: string; deltas?: readonly string[]; delayMs?: number }
  | { kind: 'tools'; text: string; calls: readonly ToolCall[] }
  | { kind: 'fail'; status: number; message: string }
  | { kind: 'hang' };

/** Decides the answer to a request. */
export type Script = (request: ChatRequest) => Answer;

/** Is this the harness's request for a title and not a turn of the conversation? */
export function isTitleRequest(request: ChatRequest): boolean {
  return (request.tools ?? []).length === 0;
}

/** The script that the table above describes. */
export const promptScript: Script = (request) => {
  if (isTitleRequest(request)) return { kind: 'text', text: 'A local session' };
  const lastUser = request.messages.findLastIndex((message) => message.role === 'user');
  const prompt = textOf(request.messages[lastUser]);
  const since = request.messages.slice(lastUser + 1);
  const answered = since.filter((message) => message.role === 'assistant').length;

  const directives = [...prompt.matchAll(DIRECTIVE)];
  const next = directives[answered];
  if (next) return follow(next[1] ?? '', next[2] ?? '');
  if (directives.length === 0 && answered === 0) {
    return { kind: 'tools', text: 'Let me run a command for that.', calls: [bash('echo hello from the local model')] };
  }
  return { kind: 'text', text: closing(textOf(since.findLast((message) => message.role === 'tool'))) };
};

/** A directive may hold brackets one level deep, as shell tests and globs do. */
const DIRECTIVE = /\[(say|think|slow|big|bash|two-tools|tool|fail|hang)(?::((?:[^[\]]|\[[^\]]*\])*))?\]/g;

function follow(name: string, value: string): Answer {
  switch (name) {
    case 'say':
      return { kind: 'text', text: value };
    case 'think':
      return { kind: 'text', thought: value, text: 'I have thought about it.' };
    case 'slow': {
      const [count = '10', delay = '100'] = value.split(':');
      const deltas = Array.from({ length: Number(count) }, (_, index) => `word${index + 1} `);
      return { kind: 'text', text: deltas.join(''), deltas, delayMs: Number(delay) };
    }
    case 'big':
      return { kind: 'text', text: 'lorem ipsum '.repeat(Math.ceil(Number(value) / 12)).slice(0, Number(value)) };
    case 'bash':
      return { kind: 'tools', text: 'I will run it.', calls: [bash(value)] };
    case 'two-tools':
      return {
        kind: 'tools',
        text: 'I will run both.',
        calls: value.split(';').map((command) => bash(command.trim())),
      };
    case 'tool':
      return callNamed(value);
    case 'fail':
      return { kind: 'fail', status: Number(value) || 400, message: 'the prompt asked for this failure' };
    case 'hang':
      return { kind: 'hang' };
    default:
      return { kind: 'fail', status: 400, message: `unknown directive ${name}` };
  }
}

function bash(command: string): ToolCall {
  return { name: 'bash', arguments: { command, description: `Runs ${command.slice(0, 60)}` } };
}

const ToolArguments = z.record(z.string(), z.unknown());

function callNamed(value: string): Answer {
  const colon = value.indexOf(':');
  const name = colon < 0 ? value : value.slice(0, colon);
  try {
    const parsed = ToolArguments.parse(JSON.parse(colon < 0 ? '{}' : value.slice(colon + 1)));
    return { kind: 'tools', text: `I will call ${name}.`, calls: [{ name, arguments: parsed }] };
  } catch {
    return { kind: 'fail', status: 400, message: `the arguments for ${name} are no JSON object` };
  }
}

function closing(result: string): string {
  const said = result.trim();
  return said === '' ? 'Done. There was no output.' : `Done. The tool said: ${said.slice(0, 400)}`;
}

function textOf(message: z.infer<typeof Message> | undefined): string {
  const content = message?.content;
  if (typeof content === 'string') return content;
  return (content ?? []).map((part) => part.text ?? '').join('\n');
}
