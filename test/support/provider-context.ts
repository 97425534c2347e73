/**
 * A RunContext for driving one provider without a runtime. It keeps the rules that a provider can run into: bounds and
 * names of events, one action at a time, withdrawal by signal, silence after the abort.
 */

import type { ActionResponse } from '../../protocol/action.js';
import { type Artifact, type ArtifactDescriptor, artifactSchema } from '../../protocol/artifact.js';
import { HoldfastError } from '../../protocol/errors.js';
import { nativeNameProblem } from '../../protocol/event.js';
import type { Usage } from '../../protocol/execution.js';
import { type Json, type JsonObject, jsonBytes, jsonProblem } from '../../protocol/json.js';
import { MAX_ACTION_BYTES, MAX_DELTA_BYTES, MAX_EVENT_BYTES } from '../../protocol/limits.js';
import type { ActionQuestion, Provider, RunContext } from '../../providers/provider.js';

export interface Emitted {
  readonly type: 'output.text.delta' | 'provider.event';
  readonly data: JsonObject;
}

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Record<string, unknown>;
}

export interface AskedAction extends ActionQuestion {
  readonly number: number;
  state: 'open' | 'answered' | 'withdrawn';
}

export interface ContextOptions<C> {
  readonly input?: Json;
  readonly config?: C;
  readonly session?: Json;
  readonly executionId?: string;
  readonly conversationId?: string;
  readonly transcript?: RunContext['conversation']['transcript'];
  /** Answers an action as soon as it is open; undefined leaves it open. */
  readonly answer?: (action: AskedAction) => ActionResponse | undefined;
  /** An abort leaves actions open: their end comes later than the abort. */
  readonly slowToWithdraw?: boolean;
  /** What an `emit` waits for: back-pressure. */
  readonly room?: () => Promise<void>;
}

export class TestContext<C = unknown> implements RunContext<C> {
  readonly execution: RunContext['execution'];
  readonly conversation: RunContext['conversation'];
  readonly input: Json;
  readonly config: C;
  readonly events: Emitted[] = [];
  readonly actions: AskedAction[] = [];
  readonly sessions: Json[] = [];
  readonly usages: Usage[] = [];
  readonly logs: LogLine[] = [];
  readonly artifacts: Artifact[] = [];
  readonly #abort = new AbortController();
  readonly #options: ContextOptions<C>;
  readonly #open = new Map<number, { resolve(response: ActionResponse): void; reject(error: Error): void }>();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: ContextOptions<C>) {
    this.#options = options;
    this.input = options.input === undefined ? 'hello' : options.input;
    this.config = options.config ?? ({} as C);
    this.execution = { id: options.executionId ?? 'exec_test', attempt: 1 };
    this.conversation = {
      tenant: 'default',
      id: options.conversationId ?? 'conv_test',
      transcript: options.transcript ?? [],
      ...(options.session === undefined ? {} : { session: options.session }),
    };
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** All text that was emitted. */
  get text(): string {
    return this.events.flatMap((event) => (event.type === 'output.text.delta' ? [event.data.text] : [])).join('');
  }

  /** The native events of one name. */
  native(name: string): JsonObject[] {
    return this.events.flatMap((event) =>
      event.type === 'provider.event' && event.data.name === name ? [event.data] : [],
    );
  }

  abort(): void {
    this.#abort.abort();
    if (this.#options.slowToWithdraw) return;
    for (const { reject } of this.#open.values()) reject(abortError());
  }

  /** Answers the action that is open. */
  respond(response: ActionResponse): void {
    const [number] = this.#open.keys();
    if (number === undefined) throw new Error('no action is open');
    this.#open.get(number)?.resolve(response);
  }

  async emit(type: Emitted['type'], data: JsonObject): Promise<void> {
    await this.#options.room?.();
    if (this.signal.aborted) return;
    const problem = jsonProblem(data) ?? (type === 'provider.event' ? nativeNameProblem(data.name) : undefined);
    if (problem !== undefined) throw new HoldfastError('PROVIDER_ERROR', problem);
    if (type === 'provider.event') {
      const bytes = jsonBytes(data);
      if (bytes > MAX_EVENT_BYTES) throw new HoldfastError('PROVIDER_ERROR', `an event of ${bytes} bytes`);
      this.events.push({ type, data });
      return;
    }
    // Split as the runtime splits: never inside a surrogate pair.
    for (let rest = String(data.text); rest !== ''; ) {
      let end = Math.min(rest.length, MAX_DELTA_BYTES / 4);
      if (end < rest.length && /[\ud800-\udbff]/.test(rest.charAt(end - 1))) end -= 1;
      this.events.push({ type, data: { text: rest.slice(0, end) } });
      rest = rest.slice(end);
    }
  }

  async requestAction(question: ActionQuestion & { readonly signal?: AbortSignal }): Promise<ActionResponse> {
    const { signal, ...asked } = question;
    const problem = jsonProblem(asked.payload ?? null);
    if (problem !== undefined) throw new HoldfastError('PROVIDER_ERROR', problem);
    if (jsonBytes(asked) > MAX_ACTION_BYTES) throw new HoldfastError('PROVIDER_ERROR', 'an action over its bound');
    if (asked.title === '' || asked.title.length > 1000) throw new HoldfastError('PROVIDER_ERROR', 'a bad title');
    const answer = this.#turn.then(() => this.#ask(asked, signal));
    this.#turn = answer.catch(() => {});
    return answer;
  }

  #ask(question: ActionQuestion, signal: AbortSignal | undefined): Promise<ActionResponse> {
    if (signal?.aborted || (this.signal.aborted && !this.#options.slowToWithdraw)) return Promise.reject(abortError());
    const action: AskedAction = { ...question, number: this.actions.length + 1, state: 'open' };
    this.actions.push(action);
    return new Promise((resolve, reject) => {
      const end = (state: 'answered' | 'withdrawn') => {
        if (action.state !== 'open') return false;
        action.state = state;
        this.#open.delete(action.number);
        return true;
      };
      const withdraw = (error: Error) => {
        if (end('withdrawn')) reject(error);
      };
      this.#open.set(action.number, {
        resolve: (response) => {
          if (end('answered')) resolve(response);
        },
        reject: withdraw,
      });
      signal?.addEventListener('abort', () => withdraw(abortError()), { once: true });
      const response = this.#options.answer?.(action);
      if (response !== undefined) this.#open.get(action.number)?.resolve(response);
    });
  }

  async reportUsage(usage: Usage): Promise<void> {
    if (!this.signal.aborted) this.usages.push(usage);
  }

  async setSession(session: Json): Promise<void> {
    this.sessions.push(session);
  }

  async sessionLost(message: string): Promise<void> {
    this.events.push({ type: 'provider.event', data: { name: 'runtime.session_lost', message } });
  }

  log(level: string, message: string, fields: Record<string, unknown> = {}): void {
    this.logs.push({ level, message, fields });
  }

  async artifact(descriptor: ArtifactDescriptor): Promise<Artifact> {
    const { id = `art_${this.artifacts.length}`, metadata = {} } = descriptor;
    const artifact = {
      ...descriptor,
      id,
      metadata,
      executionId: this.execution.id,
      createdAt: new Date().toISOString(),
    };
    this.artifacts.push(artifactSchema.parse(artifact));
    return artifact;
  }

  suspend(): never {
    throw new Error('no suspension here');
  }

  record(): never {
    throw new Error('no journal here');
  }
}

function abortError(): Error {
  const error = new Error('withdrawn');
  error.name = 'AbortError';
  return error;
}

/** Runs `provider` with a config that its own schema has checked, as the runtime does. */
export function testContext<C>(
  provider: Provider<C>,
  options: Omit<ContextOptions<C>, 'config'> & { config?: Json } = {},
) {
  const { config, ...rest } = options;
  return new TestContext<C>({ ...rest, config: provider.config.parse(config ?? {}) });
}

/** Waits until `holds`; fails after `ms` milliseconds. */
export async function eventually(holds: () => boolean, ms = 10_000): Promise<void> {
  const end = Date.now() + ms;
  while (!holds()) {
    if (Date.now() > end) throw new Error(`did not come true within ${ms} ms: ${holds}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
