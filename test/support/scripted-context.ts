/** Runs one attempt of a provider that journals and suspends, in memory: what it did stands in lists. */
import type { ActionResponse } from '../../protocol/action.js';
import type { Artifact, ArtifactDescriptor } from '../../protocol/artifact.js';
import type { Json } from '../../protocol/json.js';
import type { ActionQuestion, Provider, Resume, RunContext, RunResult } from '../../providers/provider.js';

export interface AttemptOptions {
  readonly config?: Json;
  readonly input?: Json;
  readonly attempt?: number;
  readonly resume?: Resume;
  /** Answers at once; an action without an answer stays open until `respond` or `abort`. */
  readonly answer?: (question: ActionQuestion) => ActionResponse | undefined;
  /** What every `emit` waits for. */
  readonly room?: () => Promise<void>;
}

/** One thing that the provider asked of the runtime, in order. */
export type Did =
  | readonly ['text', string]
  | readonly ['native', Json]
  | readonly ['ask' | 'suspend', ActionQuestion]
  | readonly ['artifact', ArtifactDescriptor]
  | readonly ['record' | 'session' | 'usage', Json];

export class Attempt<C> {
  readonly did: Did[] = [];
  readonly result: Promise<RunResult>;
  private readonly stop = new AbortController();
  private open: { resolve(response: ActionResponse): void; reject(reason: unknown): void } | undefined;

  constructor(
    provider: Provider<C>,
    private readonly options: AttemptOptions = {},
  ) {
    this.result = provider.run(this.context(provider.config.parse(options.config ?? {})));
    // Looked at later, or by a test that ends before.
    this.result.catch(() => undefined);
  }

  /** Everything of one kind that it did. */
  all(kind: Did[0]): unknown[] {
    return this.did.flatMap(([what, value]) => (what === kind ? [value] : []));
  }

  get text(): string {
    return this.all('text').join('');
  }

  respond(response: ActionResponse): void {
    this.open?.resolve(response);
  }

  /** Tells it to stop, and withdraws what is open. */
  abort(reason?: DOMException): void {
    this.stop.abort(reason);
    this.open?.reject(this.stop.signal.reason);
  }

  private context(config: C): RunContext<C> {
    const { options, did } = this;
    const { signal } = this.stop;
    const after = async (entry: Did): Promise<void> => {
      signal.throwIfAborted();
      did.push(entry);
    };
    return {
      execution: { id: 'exec_test', attempt: options.attempt ?? 1 },
      conversation: { tenant: 'default', id: 'conv_test', transcript: [] },
      input: options.input ?? 'hello',
      config,
      signal,
      ...(options.resume === undefined ? {} : { resume: options.resume }),
      emit: async (type: 'output.text.delta' | 'provider.event', data: { text: string } | Json) => {
        await options.room?.();
        await after(type === 'provider.event' ? ['native', data as Json] : ['text', (data as { text: string }).text]);
      },
      artifact: async (descriptor) => {
        await after(['artifact', descriptor]);
        const made = { id: 'art_test', executionId: 'exec_test', createdAt: '2026-01-01T00:00:00.000Z', metadata: {} };
        return { ...made, ...descriptor } as Artifact;
      },
      requestAction: async (question) => {
        await after(['ask', question]);
        const answer = options.answer?.(question);
        if (answer !== undefined) return answer;
        return new Promise((resolve, reject) => {
          this.open = { resolve, reject };
        });
      },
      suspend: async (question) => {
        await after(['suspend', question]);
        return { suspended: true };
      },
      record: (entry) => after(['record', entry]),
      reportUsage: (usage) => after(['usage', usage as Json]),
      setSession: (session) => after(['session', session]),
      sessionLost: (message) => after(['native', { name: 'runtime.session_lost', message }]),
      log: () => undefined,
    };
  }
}
