/** Requests to the other end: with the token, without redirects, and with every failure told apart by what to do next. */
import { setTimeout as delay } from 'node:timers/promises';
import { HoldfastError, isErrorCode } from '../../protocol/errors.js';
import { clip } from '../../protocol/json.js';
import { Redactor } from '../process/redact.js';
import type { ResolvedOptions } from './options.js';

const MAX_BODY_BYTES = 4 * 1024 * 1024;
const MAX_MESSAGE = 1000;
const FIRST_WAIT_MS = 100;
const MAX_WAIT_MS = 5_000;
const RETRYABLE = new Set([408, 425, 429, 500, 502, 503, 504]);

/** A request that did not get what it asked for. */
export class RemoteProblem extends Error {
  override readonly name = 'RemoteProblem';

  constructor(
    message: string,
    /** It may work later: nothing answered, or the answer says so. */
    readonly retryable: boolean,
    readonly status?: number,
    readonly code?: string,
  ) {
    super(message);
  }
}

export interface Call {
  readonly body?: unknown;
  readonly idempotencyKey?: string;
  readonly signal?: AbortSignal | undefined;
}

export class Remote {
  readonly redactor: Redactor;
  /** When the other end last answered anything (milliseconds, monotonic). */
  private lastHeard = performance.now();

  constructor(
    readonly options: ResolvedOptions,
    private readonly warn: (message: string, fields: Record<string, unknown>) => void,
  ) {
    this.redactor = new Redactor(options.token === undefined ? [] : [options.token]);
  }

  heard(): void {
    this.lastHeard = performance.now();
  }

  /** One JSON request, repeated until it is answered for good. So it has to be one that may be repeated. */
  async call(method: 'GET' | 'POST', path: string, call: Call = {}): Promise<unknown> {
    return await this.persist(() => this.once(method, path, call), call.signal);
  }

  private async once(method: string, path: string, { body, idempotencyKey, signal }: Call): Promise<unknown> {
    const limit = within(this.options.requestTimeoutMs, signal);
    let text: string;
    try {
      const response = await this.send(path, {
        method,
        signal: limit.signal,
        headers: {
          accept: 'application/json',
          ...(method === 'POST' ? { 'content-type': 'application/json' } : {}),
          ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
        },
        ...(method === 'POST' ? { body: JSON.stringify(body ?? {}) } : {}),
      });
      text = await this.textOf(response);
    } finally {
      limit.end();
    }
    try {
      return JSON.parse(text);
    } catch {
      throw new RemoteProblem(`${method} ${path} was answered with something that is no JSON`, false);
    }
  }

  /** Opens a stream; undefined when the other end says that there is nothing more to come. */
  async open(path: string, signal: AbortSignal): Promise<ReadableStream<Uint8Array> | undefined> {
    // The body may take for ever; its head may not.
    const head = within(this.options.requestTimeoutMs, signal);
    try {
      const response = await this.send(path, {
        signal: head.signal,
        headers: { accept: 'text/event-stream', 'cache-control': 'no-store' },
      });
      if (response.status === 204) return undefined;
      const type = response.headers.get('content-type') ?? '';
      if (/^text\/event-stream\b/i.test(type) && response.body !== null) return response.body;
      await response.body?.cancel();
      throw new RemoteProblem(`GET ${path} was answered with ${type || 'no content type'}, not with a stream`, false);
    } finally {
      head.end();
    }
  }

  private async send(path: string, init: RequestInit): Promise<Response> {
    const { baseURL, token } = this.options;
    const headers = { ...init.headers, ...(token === undefined ? {} : { authorization: `Bearer ${token}` }) };
    let response: Response;
    try {
      response = await fetch(baseURL + path, { ...init, headers, redirect: 'manual' });
    } catch (error) {
      throw new RemoteProblem(`${init.method ?? 'GET'} ${path} got no answer: ${this.said(error)}`, true);
    }
    if (response.ok) {
      this.heard();
      return response;
    }
    throw await this.refusal(`${init.method ?? 'GET'} ${path}`, response);
  }

  private async refusal(what: string, response: Response): Promise<RemoteProblem> {
    const { status } = response;
    // A proxy answers for a server that is away.
    if (!RETRYABLE.has(status)) this.heard();
    if (status >= 300 && status < 400) {
      await response.body?.cancel();
      return new RemoteProblem(`${what} was answered with ${status}, a redirect, which is not followed`, false, status);
    }
    const { code, message } = problemIn(await this.textOf(response).catch(() => ''));
    const said = message === '' ? '' : `: ${clip(this.redactor.text(message), MAX_MESSAGE)}`;
    const name = code === undefined ? '' : ` ${clip(this.redactor.text(code), 100)}`;
    return new RemoteProblem(`${what} was answered with ${status}${name}${said}`, RETRYABLE.has(status), status, code);
  }

  private async textOf(response: Response): Promise<string> {
    const chunks: Uint8Array[] = [];
    let bytes = 0;
    try {
      for await (const chunk of response.body ?? []) {
        bytes += chunk.byteLength;
        if (bytes > MAX_BODY_BYTES) throw new RemoteProblem(`an answer takes more than ${MAX_BODY_BYTES} bytes`, false);
        chunks.push(chunk as Uint8Array);
      }
    } catch (error) {
      if (error instanceof RemoteProblem) throw error;
      throw new RemoteProblem(`an answer was cut off: ${this.said(error)}`, true);
    }
    return Buffer.concat(chunks).toString('utf8');
  }

  said(error: unknown): string {
    if (!(error instanceof Error)) return this.redactor.text(String(error));
    const { cause } = error;
    const why = cause instanceof Error ? ` (${cause.message || String((cause as { code?: unknown }).code ?? '')})` : '';
    return this.redactor.text(`${error.message}${why}`);
  }

  /** Repeats what may work later, with growing waits, until the other end has been out of reach for too long. */
  async persist<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    for (let failures = 0; ; failures++) {
      signal?.throwIfAborted();
      try {
        return await work();
      } catch (error) {
        signal?.throwIfAborted();
        if (!(error instanceof RemoteProblem && error.retryable)) throw error;
        await this.pause(failures, error, signal);
      }
    }
  }

  /** @throws HoldfastError `RUNTIME_UNAVAILABLE` when there is no more patience */
  async pause(failures: number, problem: Error, signal?: AbortSignal, atLeastMs = 0): Promise<void> {
    const silent = performance.now() - this.lastHeard;
    if (silent > this.options.unreachableMs)
      throw new HoldfastError(
        'RUNTIME_UNAVAILABLE',
        `the remote runtime was out of reach for ${Math.round(silent / 1000)} s: ${problem.message}`,
      );
    if (failures === 3) this.warn('the remote runtime is out of reach', { error: problem.message });
    const wait = Math.min(MAX_WAIT_MS, FIRST_WAIT_MS * 2 ** Math.min(failures, 10)) * (0.5 + Math.random() / 2);
    const waits = Math.max(wait, Math.min(atLeastMs, MAX_WAIT_MS));
    await delay(waits, undefined, signal === undefined ? {} : { signal }).catch(() => undefined);
    signal?.throwIfAborted();
  }
}

/** A signal that aborts with `signal`, and after so many milliseconds unless it was ended before. */
export function within(ms: number, signal?: AbortSignal): { readonly signal: AbortSignal; end(): void } {
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), ms);
  return {
    signal: signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]),
    end: () => clearTimeout(timer),
  };
}

function problemIn(body: string): { readonly code?: string; readonly message: string } {
  try {
    const { code, message, error } = JSON.parse(body) as { code?: unknown; message?: unknown; error?: unknown };
    // Some servers of the contract wrap it.
    if (code === undefined && typeof error === 'object' && error !== null) return problemIn(JSON.stringify(error));
    return {
      ...(typeof code === 'string' ? { code } : {}),
      message: typeof message === 'string' ? message : '',
    };
  } catch {
    return { message: '' };
  }
}

/** What a run rejects with for `error`: a code of the contract stays what it is, anything else is a `PROVIDER_ERROR`. */
export function asHoldfastError(error: unknown): unknown {
  if (!(error instanceof RemoteProblem)) return error;
  const { code } = error;
  const kept = isErrorCode(code) && code !== 'NOT_FOUND' && code !== 'INTERNAL_ERROR' ? code : 'PROVIDER_ERROR';
  return new HoldfastError(kept, `the remote runtime: ${error.message}`, { cause: error });
}
