/** What a provider gets to work with: the runtime's side of `RunContext`. Every bound is checked here, at the edge. */
import { randomBytes } from 'node:crypto';
import { type ActionResponse, type AskedAction, askedActionSchema, askedProblem } from '../protocol/action.js';
import { type Artifact, type ArtifactDescriptor, artifactDescriptorSchema } from '../protocol/artifact.js';
import { HoldfastError } from '../protocol/errors.js';
import { nativeNameProblem } from '../protocol/event.js';
import { type Usage, usageSchema } from '../protocol/execution.js';
import { idFrom } from '../protocol/ids.js';
import { clip, type Json, jsonBytes, jsonProblem, throughJson } from '../protocol/json.js';
import {
  MAX_ACTION_BYTES,
  MAX_ACTIONS,
  MAX_ARTIFACT_BYTES,
  MAX_ARTIFACTS,
  MAX_DELTA_BYTES,
  MAX_EVENT_BYTES,
  MAX_JOURNAL_ENTRY_BYTES,
  MAX_MESSAGE_LENGTH,
  MAX_SESSION_BYTES,
  MAX_TIMEOUT_SECONDS,
} from '../protocol/limits.js';
import { sameQuestion } from '../protocol/log/answers.js';
import type { BatchItem } from '../protocol/log/inputs.js';
import type { HeldAnswer, LogState } from '../protocol/log/state.js';
import type { CapabilityLevel } from '../protocol/manifest.js';
import type { ActionQuestion, Resume, RunContext, RunResult } from '../providers/provider.js';
import { type EventSink, overLimit } from './sink.js';

export interface RunContextOptions {
  readonly state: LogState;
  readonly config: unknown;
  readonly recovery: 'none' | 'journal';
  /** The manifest's `conversation.continuity`. */
  readonly continuity: CapabilityLevel;
  readonly resume?: Resume;
  readonly sink: EventSink;
  readonly signal: AbortSignal;
  readonly log: RunContext['log'];
}

type Level = Parameters<RunContext['log']>[0];

export class ProviderContext implements RunContext {
  readonly execution: RunContext['execution'];
  readonly conversation: RunContext['conversation'];
  readonly input: Json;
  readonly config: unknown;
  readonly signal: AbortSignal;
  readonly resume?: Resume;
  private readonly state: LogState;
  private readonly sink: EventSink;
  private readonly waiting = new Map<string, (response: ActionResponse) => void>();
  /** Answers and the open action of earlier attempts, for when the same is asked again. */
  private inheritedAnswers: readonly HeldAnswer[];
  private inheritedOpen: AskedAction | undefined;
  private turn: Promise<unknown> = Promise.resolve();
  private readonly artifacts = new Set<string>();
  private asked: number;
  private halfPair = '';

  constructor(private readonly options: RunContextOptions) {
    const { state } = options;
    this.state = state;
    this.sink = options.sink;
    this.execution = { id: state.executionId, attempt: state.attempt };
    this.conversation = {
      tenant: state.tenant,
      id: state.conversationId,
      transcript: state.transcript ?? [],
      ...(state.session === undefined ? {} : { session: state.session }),
    };
    this.input = state.request.input;
    this.config = options.config;
    this.signal = options.signal;
    if (options.resume !== undefined) this.resume = options.resume;
    this.inheritedAnswers = state.answers.filter((answer) => !answer.suspended);
    this.inheritedOpen = state.open?.request;
    this.asked = Object.keys(state.actions).length + (state.open === undefined ? 0 : 1);
  }

  log(level: Level, message: string, fields?: Record<string, unknown>): void {
    this.options.log(level, message, fields);
  }

  emit(type: 'output.text.delta' | 'provider.event', data: unknown): Promise<void> {
    return quiet(this.emitChecked(type, data));
  }

  private async emitChecked(type: string, data: unknown): Promise<void> {
    if (this.signal.aborted) return;
    if (type === 'output.text.delta') {
      const text = (data as { text?: unknown } | null)?.text;
      if (typeof text !== 'string') throw providerError('output.text.delta needs a "text"');
      return await this.emitText(text);
    }
    if (type !== 'provider.event') throw providerError(`a provider may not emit ${JSON.stringify(type)}`);
    const problem = jsonProblem(data) ?? nativeNameProblem((data as { name?: unknown } | null)?.name);
    if (problem !== undefined) throw providerError(problem);
    const bytes = jsonBytes(data);
    if (bytes > MAX_EVENT_BYTES) throw overLimit('a provider.event', bytes, MAX_EVENT_BYTES);
    await this.sink.push({ kind: 'native', data: throughJson(data) as { [key: string]: Json } });
  }

  private async emitText(given: string): Promise<void> {
    const text = this.halfPair + given;
    const last = text.charCodeAt(text.length - 1);
    // The second half of a pair comes with the next delta; half a character is never an event.
    const half = last >= 0xd800 && last <= 0xdbff ? 1 : 0;
    this.halfPair = half === 1 ? text.slice(-1) : '';
    const whole = text.slice(0, text.length - half);
    if (whole === '') return;
    // All parts at once, so that nothing that is emitted next gets between them.
    let room: Promise<void> = Promise.resolve();
    for (const part of splitText(whole)) room = this.sink.push({ kind: 'text', text: part });
    await room;
  }

  /** Text that was held back for a second half which never came. */
  async flushText(): Promise<void> {
    const rest = this.halfPair;
    this.halfPair = '';
    if (rest !== '') await this.sink.push({ kind: 'text', text: '\ufffd' });
  }

  artifact(descriptor: ArtifactDescriptor): Promise<Artifact> {
    return quiet(this.makeArtifact(descriptor));
  }

  private async makeArtifact(given: ArtifactDescriptor): Promise<Artifact> {
    const parsed = artifactDescriptorSchema.safeParse(given);
    if (!parsed.success) throw providerError(`artifact: ${firstIssue(parsed.error)}`);
    const { id = idFrom('art', randomBytes(17)), metadata = {}, name, mediaType, uri } = parsed.data;
    const artifact: Artifact = {
      id,
      executionId: this.execution.id,
      name,
      mediaType,
      createdAt: new Date().toISOString(),
      ...(uri === undefined ? {} : { uri }),
      metadata,
    };
    const bytes = jsonBytes(artifact);
    if (bytes > MAX_ARTIFACT_BYTES) throw overLimit('an artifact', bytes, MAX_ARTIFACT_BYTES);
    if (this.artifacts.has(id)) throw providerError(`the artifact id ${id} is taken; ids are unique in an execution`);
    const inherited = this.state.artifacts.includes(id);
    if (!inherited && this.state.artifacts.length + this.artifacts.size >= MAX_ARTIFACTS)
      throw providerError(`an execution has at most ${MAX_ARTIFACTS} artifacts`);
    this.artifacts.add(id);
    await this.sink.push({ kind: 'artifact', artifact });
    void this.sink.flush();
    return artifact;
  }

  requestAction(question: ActionQuestion & { readonly signal?: AbortSignal }): Promise<ActionResponse> {
    const answer = this.turn.then(() => this.ask(question));
    this.turn = answer.catch(() => undefined);
    return quiet(answer);
  }

  private async ask(question: ActionQuestion & { readonly signal?: AbortSignal }): Promise<ActionResponse> {
    const { signal } = question;
    if (this.signal.aborted || signal?.aborted) throw aborted();
    const action = this.actionOf(question);
    const held = this.inheritedAnswers.find((answer) => sameQuestion(answer.action, action));
    if (held !== undefined) {
      this.inheritedAnswers = this.inheritedAnswers.filter((answer) => answer !== held);
      await this.sink.push({ kind: 'taken', actionId: held.action.id });
      return held.response;
    }
    const item = this.askItem(action, false);
    // What is adopted may have ended meanwhile, and is then asked anew: the answer may come to either id.
    const ids = item.kind === 'adopt' ? [item.actionId, action.id] : [action.id];
    const { id, response } = await new Promise<{ id: string; response: ActionResponse }>((resolve, reject) => {
      const leave = (): void => {
        for (const each of ids) this.waiting.delete(each);
        this.signal.removeEventListener('abort', end);
        signal?.removeEventListener('abort', end);
      };
      const end = (): void => {
        leave();
        if (!this.signal.aborted) {
          for (const each of ids) void this.sink.push({ kind: 'withdraw', actionId: each });
          void this.sink.flush();
        }
        reject(aborted());
      };
      for (const each of ids)
        this.waiting.set(each, (given) => {
          leave();
          resolve({ id: each, response: given });
        });
      this.signal.addEventListener('abort', end);
      signal?.addEventListener('abort', end);
      void this.sink.push(item);
      void this.sink.flush();
    });
    await this.sink.push({ kind: 'taken', actionId: id });
    return response;
  }

  /** An answer came from the workflow. One that nobody waits for (any more) is dropped. */
  answer(actionId: string, response: ActionResponse): void {
    this.waiting.get(actionId)?.(response);
  }

  suspend(question: ActionQuestion): Promise<RunResult> {
    const suspended = this.turn.then(() => this.suspendOn(question));
    this.turn = suspended.catch(() => undefined);
    return quiet(suspended);
  }

  private async suspendOn(question: ActionQuestion): Promise<RunResult> {
    if (this.options.recovery !== 'journal')
      throw providerError('only a provider with recovery "journal" can suspend: nothing else could go on later');
    if (this.signal.aborted) throw aborted();
    const action = this.actionOf(question);
    const held = this.inheritedAnswers.find((answer) => sameQuestion(answer.action, action));
    await this.flushText();
    await this.sink.push(
      held === undefined ? this.askItem(action, true) : { kind: 'adopt', actionId: held.action.id, suspend: true },
    );
    await this.sink.flush();
    return { suspended: true };
  }

  private actionOf(question: ActionQuestion): AskedAction {
    const { kind, title, description, payload = null, valueSchema, onExpiry } = question;
    const now = Date.now();
    const expiresAt = expiryOf(question, now);
    const parsed = askedActionSchema.safeParse({
      id: idFrom('act', randomBytes(17)),
      executionId: this.execution.id,
      kind,
      title,
      ...(description === undefined ? {} : { description }),
      payload,
      ...(valueSchema === undefined ? {} : { valueSchema }),
      ...(expiresAt === undefined ? {} : { expiresAt }),
      ...(onExpiry === undefined ? {} : { onExpiry }),
      createdAt: new Date(now).toISOString(),
    });
    if (!parsed.success) throw providerError(`action: ${firstIssue(parsed.error)}`);
    const problem = askedProblem(parsed.data);
    if (problem !== undefined) throw providerError(`action: ${problem}`);
    const bytes = jsonBytes(parsed.data);
    if (bytes > MAX_ACTION_BYTES) throw overLimit('an action', bytes, MAX_ACTION_BYTES);
    this.asked += 1;
    if (this.asked > MAX_ACTIONS) throw providerError(`an execution has at most ${MAX_ACTIONS} actions`);
    return throughJson(parsed.data);
  }

  private askItem(action: AskedAction, suspend: boolean): Extract<BatchItem, { kind: 'action' | 'adopt' }> {
    const inherited = this.inheritedOpen;
    // Asked or not, what an earlier attempt had open is settled by this: adopted, or withdrawn by the reducer.
    this.inheritedOpen = undefined;
    return inherited !== undefined && sameQuestion(inherited, action)
      ? { kind: 'adopt', actionId: inherited.id, action, suspend }
      : { kind: 'action', action, suspend };
  }

  reportUsage(usage: Usage): Promise<void> {
    return quiet(this.reportChecked(usage));
  }

  private async reportChecked(given: Usage): Promise<void> {
    if (this.signal.aborted) return;
    const parsed = usageSchema.safeParse(given);
    if (!parsed.success) throw providerError(`usage: ${firstIssue(parsed.error)}`);
    if (Object.keys(parsed.data).length > 0) await this.sink.push({ kind: 'usage', usage: parsed.data });
  }

  record(entry: Json): Promise<void> {
    return quiet(this.recordChecked(entry));
  }

  private async recordChecked(entry: Json): Promise<void> {
    if (this.signal.aborted) throw notRecorded();
    const problem = jsonProblem(entry);
    if (problem !== undefined) throw providerError(`journal entry: ${problem}`);
    const bytes = jsonBytes(entry);
    if (bytes > MAX_JOURNAL_ENTRY_BYTES) throw overLimit('a journal entry', bytes, MAX_JOURNAL_ENTRY_BYTES);
    // What was answered before an entry belongs to it; asked again later, it is a new question.
    this.inheritedAnswers = [];
    void this.sink.push({ kind: 'record', entry: throughJson(entry) });
    await this.sink.flush();
    // What was given up on the way is not durable, and whoever relies on it must not go on.
    if (this.signal.aborted) throw notRecorded();
  }

  setSession(session: Json): Promise<void> {
    return quiet(this.setSessionChecked(session));
  }

  private async setSessionChecked(session: Json): Promise<void> {
    const problem = jsonProblem(session);
    if (problem !== undefined) throw providerError(`session: ${problem}`);
    const bytes = jsonBytes(session);
    if (bytes > MAX_SESSION_BYTES) throw overLimit('a session reference', bytes, MAX_SESSION_BYTES);
    await this.sink.push({ kind: 'session', session: throughJson(session) });
  }

  sessionLost(message: string): Promise<void> {
    return quiet(this.reportLost(clip(String(message), MAX_MESSAGE_LENGTH)));
  }

  private async reportLost(message: string): Promise<void> {
    const forget = this.options.continuity !== 'native';
    await this.sink.push({ kind: 'session_lost', message, forget });
    if (!forget)
      throw providerError(
        `the session of this conversation is lost (${message}), and its provider promises to go on with it; begin a new conversation`,
      );
  }
}

/** When a question expires, in ISO 8601; undefined when it never does. */
function expiryOf({ timeoutSeconds, expiresAt }: ActionQuestion, now: number): string | undefined {
  if (timeoutSeconds === undefined && expiresAt === undefined) return undefined;
  if (timeoutSeconds !== undefined && expiresAt !== undefined)
    throw providerError('action: give "timeoutSeconds" or "expiresAt", not both');
  const at = expiresAt === undefined ? now + Number(timeoutSeconds) * 1000 : Date.parse(String(expiresAt));
  const isNumber = timeoutSeconds === undefined || (typeof timeoutSeconds === 'number' && timeoutSeconds > 0);
  // What never was a time is none either; one that has passed expires at once.
  if (!isNumber || Number.isNaN(at) || at > now + MAX_TIMEOUT_SECONDS * 1000)
    throw providerError(
      `action: "timeoutSeconds" is a number over 0, "expiresAt" a time in ISO 8601, both at most ${MAX_TIMEOUT_SECONDS} s away`,
    );
  return new Date(at).toISOString();
}

/** A rejection that nobody awaits must not take the worker down; whoever awaits it still sees it. */
function quiet<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => undefined);
  return promise;
}

function aborted(): Error {
  return new DOMException('the action was withdrawn', 'AbortError');
}

function notRecorded(): Error {
  return new DOMException('the run was stopped before this entry was durable', 'AbortError');
}

function providerError(message: string): HoldfastError {
  return new HoldfastError('PROVIDER_ERROR', message);
}

function firstIssue(error: { issues: readonly { path: readonly PropertyKey[]; message: string }[] }): string {
  const issue = error.issues[0];
  return issue === undefined ? 'invalid' : `${issue.path.join('.') || 'value'}: ${issue.message}`;
}

/** Halves until each part fits an event; never inside a surrogate pair. */
export function splitText(text: string): string[] {
  if (text.length * 6 + 2 <= MAX_DELTA_BYTES || jsonBytes(text) <= MAX_DELTA_BYTES) return [text];
  let middle = text.length >>> 1;
  const before = text.charCodeAt(middle - 1);
  if (before >= 0xd800 && before <= 0xdbff) middle += 1;
  return [...splitText(text.slice(0, middle)), ...splitText(text.slice(middle))];
}
