/** One request to a model, by the SDK's `streamText` with one step: no retry, no tool is run, nothing goes on by itself. */
import type { LanguageModel, ModelMessage, TextStreamPart, ToolSet } from 'ai';
import type { JsonObject } from '../../protocol/json.js';
import type { Redactor } from '../process/redact.js';
import { TextGate } from '../process/redact.js';
import { unlessAborted } from '../process/wait.js';
import { asModelFailure, ModelFailure } from './failure.js';
import type { TokenUsage } from './journal.js';

/** UTF-16 units of one answer, with its thoughts and arguments: four times what the largest models write. */
const MAX_ANSWER_LENGTH = 2 * 1024 * 1024;
const MAX_CALLS = 128;

export interface ModelRequest {
  readonly model: LanguageModel;
  readonly system: string | undefined;
  readonly messages: ModelMessage[];
  /** Without `execute`: a call ends the step. */
  readonly tools: ToolSet;
  readonly maxOutputTokens: number | undefined;
  readonly temperature: number | undefined;
  readonly idleTimeoutMs: number;
  readonly signal: AbortSignal;
  readonly redactor: Redactor;
  /** Takes each piece of text as it comes; the stream waits for it. */
  onText(text: string): Promise<void>;
  /** Something that was asked for and is not done, in the SDK's words. */
  onWarning(warning: string): void;
}

/** A call as the model wrote it: `input` is whatever its arguments came to, or their text when they are no JSON. */
export interface RawCall {
  readonly id: string;
  readonly tool: string;
  readonly input: unknown;
  readonly options?: JsonObject;
}

export type RawPart =
  | { readonly text: string; readonly options?: JsonObject }
  | { readonly thought: string; readonly options?: JsonObject }
  | RawCall;

export interface ModelAnswer {
  readonly parts: readonly RawPart[];
  readonly finish: string;
  /** As the model's API spelled it. */
  readonly rawFinish: string | undefined;
  readonly usage: TokenUsage;
}

/**
 * Asks once. Rejects with a `ModelFailure` when there is no whole answer, with a reason to end; with the signal's reason
 * when that aborts; with what `onText` rejects with.
 */
export async function askModel(request: ModelRequest): Promise<ModelAnswer> {
  const { streamText } = await import('ai');
  // Else it prints its warnings; they come with the stream as well. A worker that has set this keeps what it set.
  globalThis.AI_SDK_LOG_WARNINGS ??= false;
  const idle = new AbortController();
  const stop = AbortSignal.any([request.signal, idle.signal]);
  const { system, maxOutputTokens, temperature } = request;
  const stream = streamText({
    model: request.model,
    messages: request.messages,
    tools: request.tools,
    maxRetries: 0,
    abortSignal: stop,
    // By default it is printed, and an error may hold anything.
    onError: () => {},
    ...(system === undefined ? {} : { system }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(temperature === undefined ? {} : { temperature }),
  }).fullStream[Symbol.asyncIterator]();
  const answer = new AnswerBuilder(request);
  try {
    for (;;) {
      const timer = setTimeout(() => idle.abort(), request.idleTimeoutMs);
      const next = await unlessAborted(stream.next(), stop).finally(() => clearTimeout(timer));
      request.signal.throwIfAborted();
      if (next === undefined)
        throw new ModelFailure(`said nothing for ${request.idleTimeoutMs} ms (limits.idleTimeoutMs)`, {
          retryable: true,
        });
      if (next.done) return answer.finished();
      await answer.take(next.value);
    }
  } catch (error) {
    request.signal.throwIfAborted();
    throw answer.own ?? asModelFailure(error);
  } finally {
    // Closes the connection when it was left in the middle.
    idle.abort();
    void Promise.resolve(stream.return?.()).catch(() => {});
  }
}

interface Block {
  kind: 'text' | 'thought';
  text: string;
  options?: JsonObject;
}

class AnswerBuilder {
  /** An error of the runtime's, to be told from the model's. */
  own: unknown;
  readonly #request: ModelRequest;
  readonly #parts: (Block | RawCall)[] = [];
  readonly #open = new Map<string, Block>();
  readonly #gate: TextGate;
  #length = 0;
  #calls = 0;
  #end: Omit<ModelAnswer, 'parts'> | undefined;

  constructor(request: ModelRequest) {
    this.#request = request;
    this.#gate = new TextGate(request.redactor);
  }

  async take(part: TextStreamPart<ToolSet>): Promise<void> {
    switch (part.type) {
      case 'text-start':
      case 'reasoning-start': {
        const block: Block = { kind: part.type === 'text-start' ? 'text' : 'thought', text: '' };
        keepOptions(block, part.providerMetadata);
        this.#open.set(part.id, block);
        this.#parts.push(block);
        return;
      }
      case 'text-delta':
      case 'reasoning-delta': {
        const block = this.#open.get(part.id);
        if (block === undefined) return;
        keepOptions(block, part.providerMetadata);
        this.#grow(part.text.length);
        if (block.kind === 'text') return this.#say(block, this.#gate.push(part.text));
        block.text += part.text;
        return;
      }
      case 'text-end':
      case 'reasoning-end': {
        const block = this.#open.get(part.id);
        if (block === undefined) return;
        this.#open.delete(part.id);
        keepOptions(block, part.providerMetadata);
        if (block.kind === 'text') return this.#say(block, this.#gate.flush());
        block.text = this.#request.redactor.text(block.text);
        return;
      }
      case 'tool-input-delta':
        return this.#grow(part.delta.length);
      case 'tool-call': {
        this.#calls += 1;
        if (this.#calls > MAX_CALLS)
          throw new ModelFailure(`called more than ${MAX_CALLS} tools in one answer`, { retryable: false });
        const call = { id: part.toolCallId, tool: part.toolName, input: part.input as unknown };
        const options = part.providerMetadata as JsonObject | undefined;
        this.#parts.push(options === undefined ? call : { ...call, options });
        return;
      }
      case 'start-step':
        for (const warning of part.warnings) this.#request.onWarning(JSON.stringify(warning));
        return;
      case 'error':
        throw asModelFailure(part.error);
      case 'finish-step':
        this.#end = { finish: part.finishReason, rawFinish: part.rawFinishReason, usage: usageOf(part.usage) };
        return;
      default:
        return;
    }
  }

  finished(): ModelAnswer {
    if (this.#end === undefined || this.#end.finish === 'error')
      throw new ModelFailure('ended its answer without a reason to end', { retryable: true });
    const parts = this.#parts.flatMap((part): RawPart[] => {
      if (!('kind' in part)) return [part];
      const { kind, text, options } = part;
      if (text === '' && options === undefined) return [];
      return [{ ...(kind === 'text' ? { text } : { thought: text }), ...(options === undefined ? {} : { options }) }];
    });
    return { parts, ...this.#end };
  }

  async #say(block: Block, text: string): Promise<void> {
    if (text === '') return;
    block.text += text;
    try {
      await this.#request.onText(text);
    } catch (error) {
      this.own = error;
      throw error;
    }
  }

  #grow(length: number): void {
    this.#length += length;
    if (this.#length > MAX_ANSWER_LENGTH)
      throw new ModelFailure(`wrote more than ${MAX_ANSWER_LENGTH} characters in one answer`, { retryable: false });
  }
}

/** The latest that came for a block stands for all of it, as in the SDK. */
function keepOptions(block: Block, metadata: unknown): void {
  if (metadata !== undefined) block.options = metadata as JsonObject;
}

function usageOf(usage: Extract<TextStreamPart<ToolSet>, { type: 'finish-step' }>['usage']): TokenUsage {
  return {
    inputTokens: usage.inputTokens ?? 0,
    outputTokens: usage.outputTokens ?? 0,
    reasoningTokens: usage.outputTokenDetails?.reasoningTokens ?? 0,
    cachedInputTokens: usage.inputTokenDetails?.cacheReadTokens ?? 0,
  };
}
