/**
 * What a backend service uses: submit executions, watch them, answer, cancel, collect. All reads fold the execution's
 * history and work with no worker running.
 *
 * @example
 * const client = await HoldfastClient.connect({ address: 'localhost:7233' });
 * const { id: conversationId } = await client.createConversation();
 * const { execution } = await client.startExecution({ conversationId, providerId: 'scripted', input: 'hello' });
 * for await (const event of client.events(execution.id)) console.log(event.sequence, event.type, event.data);
 */
import { Client, Connection, type ConnectionOptions, WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { type DataConverter, defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import { connectionOptions } from '../log/channel.js';
import { type Decode, decoder } from '../log/decode.js';
import { isEnded } from '../log/fold.js';
import type { Follower } from '../log/follower.js';
import { Followers } from '../log/followers.js';
import { GRPC, grpcCode, grpcMessage, isMissingNamespace } from '../log/grpc.js';
import { HistoryReader } from '../log/history.js';
import { LogReader } from '../log/reader.js';
import { type ActionResponse, actionResponseSchema } from '../protocol/action.js';
import type { Artifact } from '../protocol/artifact.js';
import {
  type Conversation,
  type CreateConversationRequest,
  createConversationRequestSchema,
} from '../protocol/conversation.js';
import { HoldfastError } from '../protocol/errors.js';
import type { HoldfastEvent } from '../protocol/event.js';
import {
  type Execution,
  type ListExecutionsFilter,
  listExecutionsFilterSchema,
  type StartExecutionRequest,
  startExecutionRequestSchema,
} from '../protocol/execution.js';
import { DEFAULT_TENANT, workflowIdOf } from '../protocol/ids.js';
import { clip, type Json, jsonBytes } from '../protocol/json.js';
import { MAX_MESSAGE_LENGTH, MAX_RESPONSE_BYTES } from '../protocol/limits.js';
import { judge } from '../protocol/log/answers.js';
import type { Respond } from '../protocol/log/inputs.js';
import { REDUCER_VERSION, type Verdict } from '../protocol/log/state.js';
import { PROTOCOL_VERSION, type ProviderManifest } from '../protocol/manifest.js';
import { VERSION } from '../protocol/version.js';
import {
  type ConversationMemo,
  type ConversationStart,
  type ExecutionMemo,
  type ExecutionStart,
  type LogTimes,
  MEMO,
  SEARCH_ATTRIBUTES,
  WORKFLOW_QUEUE,
  WORKFLOW_TASK_TIMEOUT_MS,
  WORKFLOW_TYPES,
} from '../workflows/messages.js';
import { Catalog } from './catalog.js';
import {
  check,
  checkCursor,
  checkExecutionId,
  checkId,
  checkLimit,
  checkOptions,
  checkSignal,
  checkTimeout,
} from './checks.js';
import { describe } from './describe.js';
import { executionIdOf, fingerprint, randomId } from './identity.js';
import { type Inbox, type InboxFilter, inboxFilterSchema, listInbox } from './inbox.js';
import { type ExecutionList, listExecutions } from './listing.js';
import { type Readiness, readiness } from './readiness.js';
import { type Subscription, subscribe } from './subscribe.js';
import { clientClosed, translate } from './translate.js';

export interface ClientOptions {
  /** Host and port of the Temporal frontend. Default `localhost:7233`. */
  readonly address?: string;
  /** Default `default`. */
  readonly namespace?: string;
  /** Whose executions these are; it comes from the caller's identity, never from a request. Default `default`. */
  readonly tenant?: string;
  /** Further connection options: `tls`, `apiKey`, `metadata`. */
  readonly connection?: Pick<ConnectionOptions, 'tls' | 'apiKey' | 'metadata'>;
  /** Payload codecs and failure converter; the same as the workers'. */
  readonly dataConverter?: DataConverter;
  /** Executions that are long-polled at once in this process; more are read in turn, every 1–5 s. Default 100. */
  readonly maxLongPolls?: number;
  /** Called when the server refuses a poll for its own limits, with the number of times so far. */
  readonly onThrottled?: (count: number) => void;
}

export interface RuntimeDescription {
  readonly name: 'holdfast';
  readonly version: string;
  readonly protocolVersion: string;
  readonly providers: readonly ProviderManifest[];
}

export interface StartedExecution {
  readonly execution: Execution;
  /** The idempotency key had been used: this is the original. */
  readonly replayed: boolean;
}

export interface EventPage {
  readonly events: readonly HoldfastEvent[];
  /** The cursor to go on from: the last sequence in `events`, or the one that was asked with. */
  readonly nextCursor: number;
}

export interface RespondOptions {
  /**
   * Names this answer: repeating it with the same id returns the first outcome, whatever came since. Default: random.
   */
  readonly responseId?: string;
  /** How long to wait for the verdict, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number;
}

const CONNECT_MS = 5_000;
const CALL_MS = 10_000;
const DEFAULT_RESPOND_MS = 10_000;
const MAX_LONG_POLLS = 100;
const KEYS = {
  state: defineSearchAttributeKey(SEARCH_ATTRIBUTES.state, 'KEYWORD'),
  provider: defineSearchAttributeKey(SEARCH_ATTRIBUTES.provider, 'KEYWORD'),
  conversation: defineSearchAttributeKey(SEARCH_ATTRIBUTES.conversation, 'KEYWORD'),
  tenant: defineSearchAttributeKey(SEARCH_ATTRIBUTES.tenant, 'KEYWORD'),
};

export class HoldfastClient {
  readonly tenant: string;
  private readonly temporal: Client;
  private readonly decode: Decode;
  private readonly reader: LogReader;
  private readonly followers: Followers;
  private readonly catalog: Catalog;
  private closed = false;

  private constructor(connection: Connection, options: ClientOptions) {
    const { namespace = 'default', dataConverter } = options;
    this.tenant = checkId(options.tenant ?? DEFAULT_TENANT, 'tenant');
    this.temporal = new Client({ connection, namespace, ...(dataConverter === undefined ? {} : { dataConverter }) });
    this.decode = decoder(dataConverter?.payloadCodecs);
    this.reader = new LogReader(new HistoryReader(this.temporal, namespace, this.decode));
    const { maxLongPolls = MAX_LONG_POLLS, onThrottled } = options;
    this.followers = new Followers(this.reader, { maxLongPolls }, (_, count) => tell(onThrottled, count));
    this.catalog = new Catalog(this.temporal, this.decode);
  }

  /**
   * Connects to a Temporal cluster.
   *
   * @throws HoldfastError `RUNTIME_UNAVAILABLE` when nothing answers there, `VALIDATION_ERROR` for options that make no
   * sense.
   */
  static async connect(options: ClientOptions = {}): Promise<HoldfastClient> {
    checkConnectOptions(options);
    const address = options.address ?? 'localhost:7233';
    if (options.dataConverter?.payloadConverterPath !== undefined)
      throw new HoldfastError(
        'VALIDATION_ERROR',
        'dataConverter.payloadConverterPath is not supported: messages are JSON. Use payloadCodecs to encrypt or compress.',
      );
    let connection: Connection;
    try {
      const connectTimeout = CONNECT_MS;
      connection = await Connection.connect({ address, connectTimeout, ...options.connection, ...connectionOptions() });
    } catch (error) {
      throw new HoldfastError(
        'RUNTIME_UNAVAILABLE',
        `no Temporal server answers at ${address}: ${grpcMessage(error)}`,
        {
          cause: error,
        },
      );
    }
    return new HoldfastClient(connection, options);
  }

  /** Ends every iterator of this client and its connection. */
  async close(): Promise<void> {
    this.closed = true;
    this.followers.close();
    await this.temporal.connection.close();
  }

  /** Executions followed and long polls held at this moment, and how often the server refused one. */
  get load(): { readonly followed: number; readonly polls: number; readonly throttled: number } {
    return { ...this.followers.load, throttled: this.followers.throttled };
  }

  /** This runtime and the providers that its workers announced. */
  async describeRuntime(): Promise<RuntimeDescription> {
    const providers = await this.call('the catalog', () => this.catalog.list());
    return { name: 'holdfast', version: VERSION, protocolVersion: PROTOCOL_VERSION, providers };
  }

  /** Whether the server answers and a worker polls, with what is missing. Throws nothing; takes 3 s at most. */
  async readiness(): Promise<Readiness> {
    if (this.closed) return { ready: false, missing: [clientClosed().message] };
    return await readiness(this.temporal);
  }

  // --- conversations ------------------------------------------------------------------------------------------------

  /** Creates a conversation. Needs no worker. */
  async createConversation(request: CreateConversationRequest = {}): Promise<Conversation> {
    const { metadata = {} } = check(createConversationRequestSchema, request, 'request');
    if (jsonBytes(metadata) > 16 * 1024)
      throw new HoldfastError('VALIDATION_ERROR', 'request.metadata: takes more than 16 KiB');
    const id = randomId('conv');
    const conversation: ConversationMemo = { id, metadata };
    const start: ConversationStart = { version: 1, tenant: this.tenant, conversation };
    return await this.call('conversation', async () => {
      await this.temporal.workflow.start(WORKFLOW_TYPES.conversation, {
        workflowId: workflowIdOf(this.tenant, id),
        taskQueue: WORKFLOW_QUEUE,
        workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        args: [start],
        memo: { [MEMO.conversation]: conversation },
        typedSearchAttributes: new TypedSearchAttributes([
          { key: KEYS.tenant, value: this.tenant },
          { key: KEYS.conversation, value: id },
        ]),
        staticSummary: `conversation ${id}`,
      });
      return (await this.findConversation(id)).conversation;
    });
  }

  /** @throws HoldfastError `NOT_FOUND` */
  async getConversation(conversationId: string): Promise<Conversation> {
    const id = checkId(conversationId, 'conversationId');
    return (await this.call(`conversation ${id}`, () => this.findConversation(id))).conversation;
  }

  private async findConversation(id: string): Promise<{ conversation: Conversation; open: boolean }> {
    const found = await describe(this.temporal, this.decode, workflowIdOf(this.tenant, id), [MEMO.conversation]);
    const memo = found.memo[MEMO.conversation] as ConversationMemo | undefined;
    if (found.type !== WORKFLOW_TYPES.conversation || memo === undefined)
      throw new HoldfastError('NOT_FOUND', `there is no conversation ${id}`);
    const { metadata, createdAt = found.startTime } = memo;
    return { conversation: { id, createdAt, metadata }, open: found.isRunning };
  }

  // --- executions ---------------------------------------------------------------------------------------------------

  /**
   * Submits an execution. With an idempotency key a repeated, equivalent request returns the original, whatever became
   * of it since; the key lives as long as its execution is retained.
   *
   * @throws HoldfastError, before anything is started: `VALIDATION_ERROR`, `NOT_FOUND` (conversation),
   * `PROVIDER_NOT_FOUND`, `CAPABILITY_UNSUPPORTED`, `IDEMPOTENCY_CONFLICT`, `INVALID_STATE` (conversation closed);
   * `RUNTIME_UNAVAILABLE` when the outcome is unknown: repeat it with the same key.
   */
  async startExecution(request: StartExecutionRequest): Promise<StartedExecution> {
    const valid = check(startExecutionRequestSchema, request, 'request');
    return await this.call(`conversation ${valid.conversationId}`, () => this.startChecked(valid));
  }

  private async startChecked(request: StartExecutionRequest): Promise<StartedExecution> {
    const { conversationId, providerId, idempotencyKey: key } = request;
    const id = key === undefined ? randomId('exec') : executionIdOf(this.tenant, conversationId, key);
    const print = fingerprint(request);
    // The key comes before all else: a retry finds its original also when its provider or conversation are gone.
    const original = key === undefined ? undefined : await this.findOriginal(id, print);
    if (original !== undefined) return original;
    const [{ open }, entry] = await Promise.all([this.findConversation(conversationId), this.catalog.get(providerId)]);
    if (!open) throw new HoldfastError('INVALID_STATE', `conversation ${conversationId} is closed`);
    this.catalog.check(entry, request.requiredCapabilities ?? [], request.config ?? {});
    const start: ExecutionStart = {
      version: REDUCER_VERSION,
      identity: { executionId: id, tenant: this.tenant, conversationId, providerId },
      request: {
        input: request.input,
        requiredCapabilities: request.requiredCapabilities ?? [],
        config: request.config ?? {},
        metadata: request.metadata ?? {},
        ...(request.timeoutSeconds === undefined ? {} : { timeoutSeconds: request.timeoutSeconds }),
      },
      taskQueue: entry.taskQueue,
      pool: entry.pool,
    };
    const memo: ExecutionMemo = { id, conversationId, providerId, metadata: request.metadata ?? {} };
    const workflowId = workflowIdOf(this.tenant, id);
    try {
      await this.temporal.workflow.start(WORKFLOW_TYPES.execution, {
        workflowId,
        taskQueue: WORKFLOW_QUEUE,
        workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
        // Temporal's own uniqueness is the lock: no table, no race.
        workflowIdReusePolicy: 'REJECT_DUPLICATE',
        args: [start],
        memo: { [MEMO.execution]: memo, [MEMO.fingerprint]: print },
        typedSearchAttributes: new TypedSearchAttributes([
          { key: KEYS.state, value: 'queued' },
          { key: KEYS.provider, value: providerId },
          { key: KEYS.conversation, value: conversationId },
          { key: KEYS.tenant, value: this.tenant },
        ]),
        staticSummary: clip(`${providerId}: ${inputLine(request.input)}`, 180),
        staticDetails: `Execution \`${id}\` of conversation \`${conversationId}\`, provider \`${providerId}\`.`,
      });
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) throw error;
      const raced = await this.findOriginal(id, print);
      if (raced !== undefined) return raced;
      const message = 'the original of this idempotency key is being deleted; repeat the request';
      throw new HoldfastError('RUNTIME_UNAVAILABLE', message, { cause: error });
    }
    return { execution: await this.foldedExecution(workflowId), replayed: false };
  }

  private async findOriginal(id: string, print: string): Promise<StartedExecution | undefined> {
    const workflowId = workflowIdOf(this.tenant, id);
    try {
      const { memo } = await describe(this.temporal, this.decode, workflowId, [MEMO.fingerprint]);
      if (memo[MEMO.fingerprint] !== print)
        throw new HoldfastError(
          'IDEMPOTENCY_CONFLICT',
          'this idempotency key was used in this conversation for another request; use a new key',
          { details: { executionId: id } },
        );
      return { execution: await this.foldedExecution(workflowId), replayed: true };
    } catch (error) {
      if (grpcCode(error) === GRPC.NOT_FOUND && !isMissingNamespace(error)) return undefined;
      throw error;
    }
  }

  private async foldedExecution(workflowId: string): Promise<Execution> {
    return (await this.reader.foldRun(workflowId)).fold.execution();
  }

  /** The execution as it is now. @throws HoldfastError `NOT_FOUND` */
  async getExecution(executionId: string): Promise<Execution> {
    const id = checkExecutionId(executionId);
    return await this.call(`execution ${id}`, () => this.foldedExecution(workflowIdOf(this.tenant, id)));
  }

  /**
   * Executions by state, provider and conversation, newest first, in pages. From Temporal's visibility: seconds behind,
   * and `starting` counts as `queued`.
   */
  async listExecutions(filter: ListExecutionsFilter = {}): Promise<ExecutionList> {
    const valid = check(listExecutionsFilterSchema, filter, 'filter');
    return await this.call('list of executions', () => listExecutions(this.temporal, this.decode, this.tenant, valid));
  }

  /**
   * Open actions across executions, for an inbox: from Temporal's visibility, so seconds behind.
   *
   * @throws HoldfastError `VALIDATION_ERROR`, `RUNTIME_UNAVAILABLE`
   */
  async listPendingActions(filter: InboxFilter = {}): Promise<Inbox> {
    const valid = check(inboxFilterSchema, filter, 'filter');
    return await this.call('list of actions', () => listInbox(this.temporal, this.decode, this.tenant, valid));
  }

  // --- the log ------------------------------------------------------------------------------------------------------

  /**
   * One page of the log as it is now, after the sequence `after` (0: from the start).
   *
   * @throws HoldfastError `NOT_FOUND`; `VALIDATION_ERROR` for a cursor that is none, or lies beyond the last event;
   * `EVENTS_EXPIRED` with `details.oldestSequence` when retention took what comes after `after`.
   */
  async listEvents(
    executionId: string,
    options: { readonly after?: number; readonly limit?: number } = {},
  ): Promise<EventPage> {
    const id = checkExecutionId(executionId);
    const given = checkOptions(options);
    const after = checkCursor(given.after);
    const limit = checkLimit(given.limit, 10_000);
    return await this.call(`execution ${id}`, async () => {
      const events: HoldfastEvent[] = [];
      for await (const chunk of this.reader.read(workflowIdOf(this.tenant, id), after)) {
        for (const event of chunk) if (events.length < limit) events.push(event);
        if (events.length >= limit) break;
      }
      if (events.length === 0 && after > 0) await this.refuseBeyond(id, after);
      return { events, nextCursor: events.at(-1)?.sequence ?? after };
    });
  }

  private async refuseBeyond(id: string, after: number, signal?: AbortSignal): Promise<void> {
    const { fold } = await this.reader.foldRun(workflowIdOf(this.tenant, id), undefined, signal);
    const last = fold.state.sequence;
    if (after > last)
      throw new HoldfastError('VALIDATION_ERROR', `after: ${after} lies beyond the last event, ${last}`, {
        details: { lastSequence: last },
      });
  }

  /**
   * The log from after `after`, live, to its end: contiguous, each event once, across lost workers, server restarts and
   * rollovers. Ends after the terminal event, when `signal` aborts, or when it is left (`break`), at once and leaving
   * nothing behind. Memory stays bounded however slowly it is read.
   *
   * @throws HoldfastError as `listEvents` does: at once for what cannot be an id or a cursor, else from `next()`
   */
  events(
    executionId: string,
    options: { readonly after?: number; readonly signal?: AbortSignal } = {},
  ): AsyncIterableIterator<HoldfastEvent> {
    const id = checkExecutionId(executionId);
    const given = checkOptions(options);
    const after = checkCursor(given.after);
    return this.followers.events(workflowIdOf(this.tenant, id), after, {
      signal: checkSignal(given.signal),
      ahead: (signal) => this.refuseBeyond(id, after, signal),
      translate: (error) => translate(error, `execution ${id}`),
    });
  }

  /**
   * As `events`, for who must know before the first event whether there will be one: resolves once the execution was
   * found and the cursor was checked. Subscribers of one execution share one reading of it.
   *
   * @throws HoldfastError as `listEvents` does; `EVENTS_EXPIRED` comes from the first `next()`, and soon, since `at` is
   * `backlog` then. `RUNTIME_UNAVAILABLE` when the server does not answer within 10 s.
   */
  async subscribe(
    executionId: string,
    options: { readonly after?: number; readonly signal?: AbortSignal } = {},
  ): Promise<Subscription> {
    const id = checkExecutionId(executionId);
    const given = checkOptions(options);
    const after = checkCursor(given.after);
    const signal = checkSignal(given.signal);
    const refuseBeyond = (cursor: number) => this.refuseBeyond(id, cursor);
    try {
      const wanted = { after, signal, timeoutMs: CALL_MS, refuseBeyond };
      const { at, events } = await subscribe(this.followers, workflowIdOf(this.tenant, id), wanted);
      const next = () => events.next().catch((error) => Promise.reject(translate(error, `execution ${id}`)));
      return { at, events: { ...events, next } };
    } catch (error) {
      throw translate(error, `execution ${id}`);
    }
  }

  /** The artifacts' descriptors, in the order of their creation. */
  async artifacts(executionId: string): Promise<readonly Artifact[]> {
    const id = checkExecutionId(executionId);
    return await this.call(`execution ${id}`, async () => {
      const artifacts: Artifact[] = [];
      for await (const events of this.reader.read(workflowIdOf(this.tenant, id), 0))
        for (const event of events) if (event.type === 'artifact.created') artifacts.push(event.data);
      return artifacts;
    });
  }

  /**
   * Waits for the end and returns the execution.
   *
   * @throws HoldfastError `NOT_FOUND`; `RUNTIME_UNAVAILABLE` with `details.state` when `timeoutMs` passes first.
   */
  async waitForTerminal(
    executionId: string,
    options: { readonly timeoutMs?: number; readonly signal?: AbortSignal } = {},
  ): Promise<Execution> {
    const id = checkExecutionId(executionId);
    const given = checkOptions(options);
    const wait = { timeoutMs: checkTimeout(given.timeoutMs), signal: checkSignal(given.signal) };
    return await this.follow(id, wait, (follower) =>
      follower.current !== undefined && isEnded(follower.current.state) ? follower.current.execution() : undefined,
    );
  }

  /** Follows an execution until `look` finds what it looks for. */
  private async follow<T>(
    id: string,
    options: { readonly timeoutMs?: number | undefined; readonly signal?: AbortSignal | undefined },
    look: (follower: Follower) => T | undefined,
  ): Promise<T> {
    const leaving = new AbortController();
    const timeout = options.timeoutMs === undefined ? undefined : setTimeout(() => leaving.abort(), options.timeoutMs);
    const signal = options.signal === undefined ? leaving.signal : AbortSignal.any([options.signal, leaving.signal]);
    const follower = this.followers.join(workflowIdOf(this.tenant, id));
    try {
      for (;;) {
        const found = look(follower);
        if (found !== undefined) return found;
        if (follower.done?.error !== undefined) throw translate(follower.done.error, `execution ${id}`);
        if (follower.stopped) throw clientClosed();
        if (follower.done !== undefined || signal.aborted)
          throw new HoldfastError('RUNTIME_UNAVAILABLE', `execution ${id}: gave up waiting`, {
            details: { state: follower.current?.state.state },
          });
        await follower.changed(signal);
      }
    } finally {
      clearTimeout(timeout);
      this.followers.leave(follower);
    }
  }

  // --- acting on it -------------------------------------------------------------------------------------------------

  /**
   * Answers an action. Resolves once the answer is accepted durably (delivery follows). Needs a worker for nothing but
   * the delivery.
   *
   * @throws HoldfastError `VALIDATION_ERROR` (the action stays open), `ACTION_NOT_FOUND`, `ACTION_ALREADY_RESOLVED` with
   * `details` when and how, `INVALID_STATE`, `NOT_FOUND`; `RUNTIME_UNAVAILABLE` with `details.outcome: "unknown"` and
   * `details.responseId`: repeat it with that id to learn the outcome.
   */
  async respond(
    executionId: string,
    actionId: string,
    response: ActionResponse,
    options: RespondOptions = {},
  ): Promise<void> {
    const id = checkExecutionId(executionId);
    checkId(actionId, 'actionId');
    const given = checkOptions(options);
    const responseId = checkId(given.responseId ?? randomId('resp'), 'responseId');
    const answer = check(actionResponseSchema, response, 'response');
    if (jsonBytes(answer) > MAX_RESPONSE_BYTES)
      throw new HoldfastError('VALIDATION_ERROR', `response: takes more than ${MAX_RESPONSE_BYTES} bytes`);
    const input: Respond = { call: randomId('resp'), responseId, actionId, response: answer };
    const timeoutMs = checkTimeout(given.timeoutMs) ?? DEFAULT_RESPOND_MS;
    const unknown = (cause: unknown): HoldfastError =>
      new HoldfastError('RUNTIME_UNAVAILABLE', 'the outcome of this answer is unknown; repeat it with its responseId', {
        details: { outcome: 'unknown', responseId },
        cause,
      });
    if (this.closed) throw clientClosed();
    const closed = await this.sendAnswer(id, input, timeoutMs).catch((error) => {
      // What the server refused was never applied; of anything else nobody knows.
      throw error instanceof HoldfastError || isRefused(error) ? translate(error, `execution ${id}`) : unknown(error);
    });
    const { verdict, times } = closed ?? (await this.verdictOf(id, input, timeoutMs, unknown));
    if (!verdict.accepted) throw refusal(verdict, actionId, times);
  }

  /** Sends the answer; when the execution is over already, judges it by the log as it stands. */
  private async sendAnswer(
    id: string,
    input: Respond,
    timeoutMs: number,
  ): Promise<{ verdict: Verdict; times: LogTimes } | undefined> {
    const handle = this.temporal.workflow.getHandle(workflowIdOf(this.tenant, id));
    try {
      await this.temporal.withDeadline(Date.now() + timeoutMs, () => handle.signal('respond', input));
      return undefined;
    } catch (error) {
      if (grpcCode(error) !== GRPC.NOT_FOUND || isMissingNamespace(error)) throw error;
      const { fold } = await this.call(`execution ${id}`, () => this.reader.foldRun(workflowIdOf(this.tenant, id)));
      return { verdict: judge(fold.state, input), times: fold.times };
    }
  }

  private async verdictOf(
    id: string,
    input: Respond,
    timeoutMs: number,
    unknown: (cause: unknown) => HoldfastError,
  ): Promise<{ verdict: Verdict; times: LogTimes }> {
    try {
      return await this.follow(id, { timeoutMs }, (follower) => {
        const fold = follower.current;
        if (fold === undefined) return undefined;
        const verdict = follower.verdicts.get(input.call ?? '');
        if (verdict !== undefined) return { verdict, times: fold.times };
        // Its verdict may have been read before we joined, or stand in a run before this one. An action that has ended
        // never opens again, so what it ended with holds; as long as it is open, nothing is known.
        return isEnded(fold.state) || Object.hasOwn(fold.state.actions, input.actionId)
          ? { verdict: judge(fold.state, input), times: fold.times }
          : undefined;
      });
    } catch (error) {
      throw unknown(error);
    }
  }

  /**
   * Asks for the execution to be cancelled and returns it as it then is. `run.cancelled` in the log confirms it. On one
   * that has ended this changes nothing.
   *
   * @throws HoldfastError `NOT_FOUND`; `RUNTIME_UNAVAILABLE` when the request may not have reached the server.
   */
  async cancel(executionId: string, reason?: string): Promise<Execution> {
    const id = checkExecutionId(executionId);
    if (reason !== undefined && (typeof reason !== 'string' || reason.length > MAX_MESSAGE_LENGTH))
      throw new HoldfastError('VALIDATION_ERROR', `reason: a text of at most ${MAX_MESSAGE_LENGTH} characters`);
    return await this.call(`execution ${id}`, async () => {
      const workflowId = workflowIdOf(this.tenant, id);
      const handle = this.temporal.workflow.getHandle(workflowId);
      try {
        // The signal carries the reason; only after Temporal's own request can a workflow close as Canceled.
        await handle.signal('cancel', reason === undefined ? {} : { reason });
        await handle.cancel();
      } catch (error) {
        if (grpcCode(error) !== GRPC.NOT_FOUND || isMissingNamespace(error)) throw error;
      }
      return await this.foldedExecution(workflowId);
    });
  }

  /** Bounds a call to the server and translates its failures. */
  private async call<T>(subject: string, work: () => Promise<T>): Promise<T> {
    try {
      if (this.closed) throw clientClosed();
      return await this.temporal.withDeadline(Date.now() + CALL_MS, work);
    } catch (error) {
      throw this.closed ? clientClosed() : translate(error, subject);
    }
  }
}

/** A caller's callback that throws must not end a poll that others share. */
function tell(callback: ((count: number) => void) | undefined, count: number): void {
  try {
    callback?.(count);
  } catch (error) {
    process.emitWarning(`onThrottled threw: ${String(error)}`);
  }
}

function checkConnectOptions(options: ClientOptions): void {
  checkOptions(options);
  const { address, namespace, tenant, connection, maxLongPolls } = options;
  for (const [name, value] of Object.entries({ address, namespace }))
    if (value !== undefined && (typeof value !== 'string' || value === ''))
      throw new HoldfastError('VALIDATION_ERROR', `${name}: must be a text`);
  if (tenant !== undefined) checkId(tenant, 'tenant');
  if (connection !== undefined) checkOptions(connection, 'connection');
  if (maxLongPolls !== undefined && !(Number.isSafeInteger(maxLongPolls) && maxLongPolls >= 1))
    throw new HoldfastError('VALIDATION_ERROR', 'maxLongPolls: must be a whole number, 1 or more');
}

/** Whether the server said that it did not take a call. */
function isRefused(error: unknown): boolean {
  const code = grpcCode(error);
  return (
    code === GRPC.NOT_FOUND ||
    code === GRPC.INVALID_ARGUMENT ||
    code === GRPC.PERMISSION_DENIED ||
    code === GRPC.UNAUTHENTICATED
  );
}

function inputLine(input: Json): string {
  const text = typeof input === 'string' ? input : JSON.stringify(input);
  return text.replace(/\s+/g, ' ').trim();
}

function refusal(verdict: Extract<Verdict, { accepted: false }>, actionId: string, times: LogTimes): HoldfastError {
  const { code, message, how, approved } = verdict;
  const resolvedAt = Object.hasOwn(times.actions, actionId) ? times.actions[actionId] : undefined;
  const details = {
    ...(how === undefined ? {} : { how }),
    ...(approved === undefined ? {} : { approved }),
    ...(resolvedAt === undefined ? {} : { resolvedAt }),
  };
  return new HoldfastError(code, message, Object.keys(details).length === 0 ? {} : { details });
}
