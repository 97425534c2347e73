/** Makes the language models that a configuration describes. The SDK is loaded when the first one is needed. */
import type { LanguageModel } from 'ai';
import { HoldfastError } from '../../protocol/errors.js';
import { ModelFailure } from './failure.js';
import type { AiModel } from './model-options.js';

const MIN_SECRET_LENGTH = 4;
/** Of a body that is no stream, to find its message. */
const MAX_BODY = 64 * 1024;

/** The secret values of a model. Throws `VALIDATION_ERROR` that names a variable which is not set. */
export function modelSecrets(name: string, settings: AiModel): string[] {
  if (settings.provider === 'sdk') return [...(settings.secrets ?? [])];
  const variables = [settings.apiKeyEnv, ...Object.values(settings.headerEnv ?? {})];
  return variables.flatMap((variable) => (variable === undefined ? [] : [fromEnvironment(`models.${name}`, variable)]));
}

/** The value of a variable of the worker. Throws `VALIDATION_ERROR` when it is not set, or too short to be redacted. */
export function fromEnvironment(where: string, variable: string): string {
  const value = process.env[variable];
  if (value !== undefined && value.length >= MIN_SECRET_LENGTH) return value;
  const what =
    value === undefined ? 'is not set' : `is too short to be redacted (under ${MIN_SECRET_LENGTH} characters)`;
  throw new HoldfastError('VALIDATION_ERROR', `aiProvider: ${where}: the variable ${variable} ${what}`);
}

export async function makeModel(name: string, settings: AiModel): Promise<LanguageModel> {
  if (settings.provider === 'sdk') return await settings.create();
  const where = `models.${name}`;
  const secretHeaders = Object.entries(settings.headerEnv ?? {}).map(([key, variable]) => [
    key,
    fromEnvironment(where, variable),
  ]);
  const headers = { ...settings.headers, ...Object.fromEntries(secretHeaders) };
  const apiKey = settings.apiKeyEnv === undefined ? undefined : fromEnvironment(where, settings.apiKeyEnv);
  switch (settings.provider) {
    case 'openai-compatible': {
      const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
      const { baseURL, includeUsage = true } = settings;
      return createOpenAICompatible({
        name,
        baseURL,
        headers,
        includeUsage,
        fetch: streamingFetch,
        ...(apiKey === undefined ? {} : { apiKey }),
      })(settings.model);
    }
    case 'anthropic': {
      const { createAnthropic } = await import('@ai-sdk/anthropic');
      const { baseURL } = settings;
      return createAnthropic({
        headers,
        fetch: streamingFetch,
        ...(apiKey === undefined ? {} : { apiKey }),
        ...(baseURL === undefined ? {} : { baseURL }),
      })(settings.model);
    }
    default:
      throw settings satisfies never;
  }
}

/**
 * A fetch for streamed answers. It follows no redirect (a key in a header of its own would go along), and a success
 * that is no stream is a failure: the SDK would read it as an answer without a word.
 */
async function streamingFetch(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const response = await fetch(input, { ...init, redirect: 'manual' });
  if (response.status >= 300 && response.status < 400) {
    await response.body?.cancel();
    throw new ModelFailure(`answered ${response.status}, a redirect, which is not followed`, { retryable: false });
  }
  const type = response.headers.get('content-type') ?? '';
  if (!response.ok || /^text\/event-stream\b/i.test(type)) return response;
  const said = messageIn(await beginningOf(response));
  const what = `answered ${response.status} with ${type === '' ? 'no content type' : type} instead of a stream`;
  throw new ModelFailure(said === '' ? what : `${what}: ${said}`, { retryable: false });
}

async function beginningOf(response: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += decoder.decode(chunk as Uint8Array, { stream: true });
    if (text.length > MAX_BODY) break;
  }
  return text;
}

function messageIn(body: string): string {
  try {
    const { error } = JSON.parse(body) as { error?: unknown };
    if (typeof error === 'string') return error;
    const message = (error as { message?: unknown } | null | undefined)?.message;
    return typeof message === 'string' ? message : '';
  } catch {
    return body.slice(0, 200);
  }
}
