/**
 * The agent's session updates as events: text of its message as `output.text.delta`, everything else, known or not, as
 * a `provider.event` named `acp.<sessionUpdate>` that holds the update.
 */
import { HoldfastError } from '../../protocol/errors.js';
import { nativeNameProblem } from '../../protocol/event.js';
import type { Usage } from '../../protocol/execution.js';
import type { Json, JsonObject } from '../../protocol/json.js';
import { KIB } from '../../protocol/limits.js';
import { boundJson } from '../process/bound.js';
import { type Redactor, TextGate } from '../process/redact.js';
import { unlessAborted } from '../process/wait.js';
import type { RunContext } from '../provider.js';
import { isObject } from './message.js';

/** Of one update; the rest of the contract's 128 KiB is for what stands around it. */
const MAX_UPDATE_BYTES = 100 * KIB;
/** Updates that may come before we know our session's id. */
const MAX_EARLY = 256;
/** Tool calls that are remembered. */
const MAX_TOOL_CALLS = 1000;

/** The updates that are streamed text: a secret may be cut in two by them. */
const STREAMED = ['agent_message_chunk', 'agent_thought_chunk'] as const;
type Streamed = (typeof STREAMED)[number];

export type EventSink = Pick<RunContext, 'emit' | 'reportUsage' | 'signal' | 'log'>;

export class SessionUpdates {
  readonly #sink: EventSink;
  readonly #redactor: Redactor;
  readonly #observe: (update: Record<string, unknown>) => void;
  readonly #gates: Record<Streamed, TextGate>;
  readonly #toolCalls = new Map<string, { readonly title?: string; readonly kind?: string }>();
  readonly #early: Record<string, unknown>[] = [];
  #sessionId: string | undefined;
  #replaying = false;
  #costUsd: number | undefined;
  /** Of `costUsd`, what was spent in earlier turns. */
  #spentUsd = 0;
  /** Of the message whose text came last, where the agent names its messages. */
  #messageId: unknown;
  /** One update after the other, whoever hands them in. */
  #tail: Promise<void> = Promise.resolve();

  /** @param observe sees each update of our session as it came */
  constructor(sink: EventSink, redactor: Redactor, observe: (update: Record<string, unknown>) => void = () => {}) {
    this.#sink = sink;
    this.#observe = observe;
    this.#redactor = redactor;
    this.#gates = { agent_message_chunk: new TextGate(redactor), agent_thought_chunk: new TextGate(redactor) };
  }

  get sessionId(): string | undefined {
    return this.#sessionId;
  }

  /** What the agent says the whole session has cost, in US dollars. */
  get costUsd(): number | undefined {
    return this.#costUsd;
  }

  /** What this turn has cost. A sum below the one before was begun anew, by an agent that was started again. */
  get usage(): Usage {
    const all = this.#costUsd;
    if (all === undefined) return {};
    return { costUsd: all < this.#spentUsd ? all : all - this.#spentUsd };
  }

  /** The title that a tool call had in an earlier update. */
  title(toolCallId: string): string | undefined {
    return this.#toolCalls.get(toolCallId)?.title;
  }

  /** The kind that it had. */
  kind(toolCallId: string): string | undefined {
    return this.#toolCalls.get(toolCallId)?.kind;
  }

  /** Until `open`, what arrives is an earlier turn told again, and does not enter the log. */
  replay(): void {
    this.#replaying = true;
  }

  /** What the session had cost, in US dollars, before this turn. */
  spent(costUsd: number): void {
    this.#spentUsd = costUsd;
  }

  /** From now on the updates of this session are ours; those that came before its id was known follow at once. */
  open(sessionId: string): Promise<void> {
    return this.#inTurn(async () => {
      this.#sessionId = sessionId;
      this.#replaying = false;
      for (const params of this.#early.splice(0)) await this.#take(params);
    });
  }

  /** Takes the params of one `session/update`. Resolves when the log has room for more; rejects when it refuses. */
  accept(params: Record<string, unknown>): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#replaying) return;
      if (this.#sessionId === undefined) {
        const { value } = boundJson(params, MAX_UPDATE_BYTES);
        if (this.#early.length < MAX_EARLY && isObject(value)) this.#early.push(value);
        return;
      }
      await this.#take(params);
    });
  }

  /** Emits what was held back, at the end. */
  finish(): Promise<void> {
    return this.#inTurn(() => this.#flush());
  }

  /** Emits an observation of this provider's own, without secrets. */
  note(name: string, data: JsonObject): Promise<void> {
    return this.#inTurn(async () => {
      await this.#flush();
      await this.#event(name, this.#redactor.data(data) as JsonObject);
    });
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const done = this.#tail.then(work);
    this.#tail = done.catch(() => {});
    return done;
  }

  async #take(params: Record<string, unknown>): Promise<void> {
    const { update, sessionId } = params;
    if (sessionId !== this.#sessionId || this.#sink.signal.aborted) return;
    if (!isObject(update) || typeof update.sessionUpdate !== 'string') {
      this.#sink.log('debug', 'a session/update without an update was ignored');
      return;
    }
    this.#remember(update);
    this.#observe(update);
    const kind = STREAMED.find((name) => name === update.sessionUpdate);
    const text = kind === undefined ? undefined : textOf(update);
    if (kind !== undefined && text !== undefined) return this.#streamed(kind, text, update);
    await this.#flush();
    const { value, truncated } = this.#bounded(update);
    await this.#event(nameOf(update.sessionUpdate), { update: value, ...(truncated ? { truncated } : {}) });
    if (update.sessionUpdate === 'usage_update') await this.#emit((sink) => sink.reportUsage(this.usage));
  }

  async #streamed(kind: Streamed, text: string, update: Record<string, unknown>): Promise<void> {
    // What the other stream holds back came earlier.
    await this.#flush(kind);
    const shown = this.#gates[kind].push(text);
    if (shown === '') return;
    if (kind === 'agent_message_chunk') return this.#message(shown, update.messageId);
    const content = isObject(update.content) ? update.content : {};
    const { value, truncated } = this.#bounded({ ...update, content: { ...content, text: shown } });
    await this.#event(nameOf(kind), { update: value, ...(truncated ? { truncated } : {}) });
  }

  async #flush(except?: Streamed): Promise<void> {
    for (const kind of STREAMED) {
      const text = kind === except ? '' : this.#gates[kind].flush();
      if (text === '') continue;
      if (kind === 'agent_message_chunk') await this.#text(text);
      else await this.#event(nameOf(kind), { update: { sessionUpdate: kind, content: { type: 'text', text } } });
    }
  }

  /** Secrets go before anything is shortened: a cut would leave half of one. */
  #bounded(update: Record<string, unknown>): { value: Json; truncated: boolean } {
    const whole = boundJson(update, Number.POSITIVE_INFINITY);
    const cut = boundJson(this.#redactor.data(whole.value), MAX_UPDATE_BYTES);
    return { value: cut.value, truncated: whole.truncated || cut.truncated };
  }

  /** Two messages of one turn (before and after a tool call, say) are two paragraphs. */
  async #message(text: string, messageId: unknown): Promise<void> {
    const another = this.#messageId !== undefined && messageId !== undefined && messageId !== this.#messageId;
    if (messageId !== undefined) this.#messageId = messageId;
    await this.#text(another ? `\n\n${text}` : text);
  }

  async #text(text: string): Promise<void> {
    await this.#emit((sink) => sink.emit('output.text.delta', { text }));
  }

  async #event(name: string, data: JsonObject): Promise<void> {
    await this.#emit((sink) => sink.emit('provider.event', { name, ...data }));
  }

  /** After the abort nothing is emitted any more, and nobody waits for room in the log. */
  async #emit(emit: (sink: EventSink) => Promise<void>): Promise<void> {
    const { signal } = this.#sink;
    if (signal.aborted) return;
    try {
      await unlessAborted(emit(this.#sink), signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof HoldfastError) throw error;
      throw new HoldfastError('PROVIDER_ERROR', `the log did not take an event: ${String(error)}`, { cause: error });
    }
  }

  #remember(update: Record<string, unknown>): void {
    const { toolCallId, title, kind, cost } = update;
    if (typeof toolCallId === 'string') {
      if (this.#toolCalls.size >= MAX_TOOL_CALLS) this.#toolCalls.clear();
      this.#toolCalls.set(toolCallId, {
        ...this.#toolCalls.get(toolCallId),
        ...(typeof title === 'string' && title !== '' ? { title: title.slice(0, 4000) } : {}),
        ...(typeof kind === 'string' ? { kind: kind.slice(0, 100) } : {}),
      });
    }
    if (update.sessionUpdate === 'usage_update' && isObject(cost) && cost.currency === 'USD') {
      if (typeof cost.amount === 'number' && cost.amount >= 0) this.#costUsd = cost.amount;
    }
  }
}

function textOf(update: Record<string, unknown>): string | undefined {
  const { content } = update;
  return isObject(content) && content.type === 'text' && typeof content.text === 'string' ? content.text : undefined;
}

/** A kind that makes no legal name keeps it inside the update. */
function nameOf(kind: string): string {
  const name = `acp.${kind}`;
  return nativeNameProblem(name) === undefined ? name : 'acp.session_update';
}
