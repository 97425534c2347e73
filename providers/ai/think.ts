/** One answer of the model, with as many requests as it takes, and its place in the journal. */
import type { LanguageModel, ToolSet } from 'ai';
import { clip } from '../../protocol/json.js';
import type { Redactor } from '../process/redact.js';
import { unlessAborted } from '../process/wait.js';
import type { RunContext } from '../provider.js';
import { askModel, type ModelAnswer } from './call.js';
import { fitParts } from './calls.js';
import { ModelFailure, modelError } from './failure.js';
import { messagesOf } from './messages.js';
import type { AiLimits } from './options.js';
import type { Recorder } from './recorder.js';

const FIRST_WAIT_MS = 500;
const MAX_THOUGHT_SHOWN = 4000;

export interface Thinker {
  readonly ctx: RunContext;
  readonly model: LanguageModel;
  readonly modelName: string;
  readonly instructions: string | undefined;
  readonly prompt: string;
  readonly tools: ToolSet;
  readonly maxOutputTokens: number | undefined;
  readonly temperature: number | undefined;
  readonly limits: AiLimits;
  readonly redactor: Redactor;
  readonly signal: AbortSignal;
  readonly recorder: Recorder;
}

/**
 * Gets an answer and stages its entry and events. At most `1 + maxRetries` requests. Rejects with a `PROVIDER_ERROR` that
 * names the model, or with the signal's reason.
 */
export async function think(thinker: Thinker): Promise<void> {
  const { ctx, recorder, redactor, signal } = thinker;
  const began = performance.now();
  const messages = messagesOf(ctx.conversation.transcript, thinker.prompt, recorder.state.turns);
  let discarded = false;
  for (let requests = 1; ; requests++) {
    let emitted = 0;
    try {
      const answer = await askModel({
        model: thinker.model,
        system: thinker.instructions,
        messages,
        tools: thinker.tools,
        maxOutputTokens: thinker.maxOutputTokens,
        temperature: thinker.temperature,
        idleTimeoutMs: thinker.limits.idleTimeoutMs,
        signal,
        redactor,
        onText: async (text) => {
          emitted += text.length;
          await unlessAborted(ctx.emit('output.text.delta', { text }), signal);
        },
        onWarning: (warning) => {
          if (requests === 1 && recorder.state.turns.length === 0)
            ctx.log('warn', 'the model does not do all that it is asked for', { warning: redactor.text(warning) });
        },
      });
      return stage(thinker, answer, { requests, discarded, ms: Math.round(performance.now() - began) });
    } catch (error) {
      if (!(error instanceof ModelFailure)) throw error;
      discarded ||= emitted > 0;
      await retryOrFail(thinker, error, requests, emitted);
    }
  }
}

async function retryOrFail(thinker: Thinker, failure: ModelFailure, requests: number, emitted: number): Promise<void> {
  const { ctx, limits, modelName, redactor, signal } = thinker;
  const cut = emitted === 0 ? '' : `, after ${emitted} characters of an answer`;
  const tried = requests === 1 ? '' : ` (${requests} requests were made)`;
  const fail = (why: string) => modelError(modelName, `${failure.message}${cut}${tried}${why}`, redactor);
  if (!failure.retryable) throw fail('');
  if (requests > limits.maxRetries) throw fail('');
  const waitMs = failure.waitMs ?? Math.min(limits.maxRetryWaitMs, FIRST_WAIT_MS * 2 ** (requests - 1));
  if (waitMs > limits.maxRetryWaitMs)
    throw fail(`; it asks to wait ${Math.ceil(waitMs / 1000)} s, and at most ${limits.maxRetryWaitMs} ms are waited`);
  await ctx.emit('provider.event', {
    name: 'ai.retry',
    request: requests,
    reason: clip(redactor.text(failure.message), 1000),
    waitMs: Math.round(waitMs),
    // What of the failed answer is in the log already, and counts no more.
    discardedCharacters: emitted,
  });
  await pause(waitMs, signal);
}

/** Rejects with the signal's reason as soon as that aborts. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await unlessAborted(over, signal);
  clearTimeout(timer);
  signal.throwIfAborted();
}

function stage(
  thinker: Thinker,
  answer: ModelAnswer,
  made: { requests: number; discarded: boolean; ms: number },
): void {
  const { recorder, redactor, modelName } = thinker;
  const { state } = recorder;
  const number = state.turns.length + 1;
  const parts = fitParts(answer, number, new Set(state.calls.keys()), redactor);
  for (const part of parts)
    if ('thought' in part && part.thought !== '')
      recorder.event('ai.reasoning', { text: clip(part.thought, MAX_THOUGHT_SHOWN) });
  const unknown = answer.finish === 'other' && answer.rawFinish !== undefined;
  const finish = unknown ? clip(redactor.text(answer.rawFinish ?? ''), 100) : answer.finish;
  recorder.event('ai.turn', {
    turn: number,
    model: modelName,
    finishReason: finish,
    requests: made.requests,
    ...answer.usage,
  });
  recorder.entry({
    kind: 'turn',
    parts,
    finish,
    usage: answer.usage,
    requests: made.requests,
    ms: made.ms,
    ...(made.discarded ? { discarded: true } : {}),
  });
  recorder.usage();
}
