/** The conversation as the model gets it: earlier turns, this one's prompt, and all that came of it so far. */
import type { AssistantContent, ModelMessage, ToolContent } from 'ai';
import type { RunContext } from '../provider.js';
import type { Part, Turn } from './journal.js';
import { earlierPrompt } from './prompt.js';

/** Sent after an answer that ended for tool calls, and held none. */
const NUDGE = 'Your last answer ended as if to call tools, but called none. Call one, or answer.';

export function messagesOf(
  transcript: RunContext['conversation']['transcript'],
  prompt: string,
  turns: readonly Turn[],
): ModelMessage[] {
  const messages: ModelMessage[] = [];
  for (const { input, output } of transcript) {
    messages.push({ role: 'user', content: earlierPrompt(input) });
    if (output !== '') messages.push({ role: 'assistant', content: output });
  }
  messages.push({ role: 'user', content: prompt });
  for (const turn of turns) messages.push(...messagesOfTurn(turn));
  return messages;
}

function messagesOfTurn(turn: Turn): ModelMessage[] {
  const content = turn.parts.map(contentOf);
  const spoken: ModelMessage[] = content.length === 0 ? [] : [{ role: 'assistant', content }];
  if (turn.calls.length === 0) return [...spoken, { role: 'user', content: NUDGE }];
  const results = turn.calls.map((call): ToolContent[number] => ({
    type: 'tool-result',
    toolCallId: call.callId,
    toolName: call.tool,
    output: { type: call.result?.isError ? 'error-text' : 'text', value: call.result?.output ?? '' },
  }));
  return [...spoken, { role: 'tool', content: results }];
}

type AssistantPart = Exclude<AssistantContent, string>[number];
type Options = Extract<AssistantPart, { type: 'text' }>['providerOptions'];

function contentOf(part: Part): AssistantPart {
  const providerOptions = part.options as Options;
  const options = providerOptions === undefined ? {} : { providerOptions };
  if ('text' in part) return { type: 'text', text: part.text, ...options };
  if ('thought' in part) return { type: 'reasoning', text: part.thought, ...options };
  return { type: 'tool-call', toolCallId: part.callId, toolName: part.tool, input: part.input, ...options };
}
