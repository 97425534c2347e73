/** What a command says, as events: redacted, in order, and bounded. */
import { HoldfastError } from '../../protocol/errors.js';
import type { Usage } from '../../protocol/execution.js';
import type { Json, JsonObject } from '../../protocol/json.js';
import { KIB } from '../../protocol/limits.js';
import { boundJson } from '../process/bound.js';
import { type Redactor, TextGate } from '../process/redact.js';
import { unlessAborted } from '../process/wait.js';
import type { RunContext } from '../provider.js';
import { type CommandEvent, nativeName } from './events.js';

/** The rest of the contract's 128 KiB is for what stands around it. */
const MAX_EVENT = 100 * KIB;

export class Output {
  readonly #ctx: RunContext;
  readonly #redactor: Redactor;
  readonly #gate: TextGate;

  constructor(ctx: RunContext, redactor: Redactor) {
    this.#ctx = ctx;
    this.#redactor = redactor;
    this.#gate = new TextGate(redactor);
  }

  /** Resolves when the log has room for more; rejects when it refuses. */
  text(piece: string): Promise<void> {
    return this.#say(this.#gate.push(piece));
  }

  /** Emits what was held back for what might follow it. */
  flush(): Promise<void> {
    return this.#say(this.#gate.flush());
  }

  async event({ type: _, name, ...data }: Extract<CommandEvent, { type: 'event' }>): Promise<void> {
    await this.flush();
    const shown = nativeName(name);
    const { value, truncated } = this.bounded(shown === name ? data : { ...data, event: name }, MAX_EVENT);
    const more = truncated ? { truncated } : {};
    await this.#emit(() => this.#ctx.emit('provider.event', { ...(value as JsonObject), name: shown, ...more }));
  }

  /** An event of this provider's own. */
  async note(name: string, data: JsonObject): Promise<void> {
    await this.flush();
    await this.#emit(() => this.#ctx.emit('provider.event', { ...(this.#redactor.data(data) as JsonObject), name }));
  }

  usage(usage: Usage): Promise<void> {
    return this.#emit(() => this.#ctx.reportUsage(usage));
  }

  async artifact({ type: _, ...given }: Extract<CommandEvent, { type: 'artifact' }>): Promise<void> {
    await this.flush();
    const descriptor = this.#redactor.data(given as unknown as Json) as unknown as Parameters<
      RunContext['artifact']
    >[0];
    await this.#emit(() => this.#ctx.artifact(descriptor));
  }

  /** Secrets go before anything is shortened: a cut would leave half of one. */
  bounded(value: unknown, limit: number): { value: Json; truncated: boolean } {
    const whole = boundJson(value, Number.POSITIVE_INFINITY);
    const cut = boundJson(this.#redactor.data(whole.value), limit);
    return { value: cut.value, truncated: whole.truncated || cut.truncated };
  }

  async #say(text: string): Promise<void> {
    if (text !== '') await this.#emit(() => this.#ctx.emit('output.text.delta', { text }));
  }

  /** After the abort nothing is emitted any more, and nobody waits for room in the log. */
  async #emit(emit: () => Promise<unknown>): Promise<void> {
    const { signal } = this.#ctx;
    if (signal.aborted) return;
    try {
      await unlessAborted(emit(), signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof HoldfastError) throw error;
      throw new HoldfastError('PROVIDER_ERROR', `the log did not take an event: ${String(error)}`, { cause: error });
    }
  }
}
