/**
 * The loop's state and its record: entries are applied at once, and go out together with the events beside them, in one
 * batch of the log (a batch costs four events of Temporal's history).
 */
import type { Json, JsonObject } from '../../protocol/json.js';
import type { RunContext } from '../provider.js';
import { applyEntry, type Entry, encodeEntry, foldJournal, type LoopState } from './journal.js';

type Runtime = Pick<RunContext, 'emit' | 'record' | 'reportUsage' | 'resume' | 'setSession'>;

export class Recorder {
  readonly state: LoopState;
  readonly #runtime: Runtime;
  readonly #staged: (() => Promise<void>)[] = [];

  /** Takes up what earlier attempts recorded. Throws `PROVIDER_ERROR` for a journal of another kind. */
  constructor(runtime: Runtime) {
    this.#runtime = runtime;
    this.state = foldJournal(runtime.resume?.journal ?? []);
  }

  event(name: string, data: JsonObject): void {
    this.#staged.push(() => this.#runtime.emit('provider.event', { name, ...data }));
  }

  entry(entry: Entry): void {
    applyEntry(this.state, entry);
    for (const value of encodeEntry(entry)) this.#staged.push(() => this.#runtime.record(value));
  }

  /** What the execution has used so far. */
  usage(): void {
    const { inputTokens, outputTokens } = this.state.usage;
    this.#staged.push(() => this.#runtime.reportUsage({ inputTokens, outputTokens }));
  }

  /** What the next turn of the conversation gets. */
  session(session: Json): void {
    this.#staged.push(() => this.#runtime.setSession(session));
  }

  /** Resolves when all that was staged is durable. To be awaited before anything is done that must not be done twice. */
  async commit(): Promise<void> {
    await Promise.all(this.#staged.splice(0).map((send) => send()));
  }
}
