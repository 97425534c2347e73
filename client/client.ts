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
import { Client, type Connection } from '@temporalio/client';
import { connect } from '../log/connect.js';
import { decoder } from '../log/decode.js';
import { isEnded } from '../log/fold.js';
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
import { DEFAULT_TENANT } from '../protocol/ids.js';
import { jsonBytes } from '../protocol/json.js';
import { MAX_MESSAGE_LENGTH, MAX_RESPONSE_BYTES } from '../protocol/limits.js';
import { PROTOCOL_VERSION, type ProviderManifest } from '../protocol/manifest.js';
import { VERSION } from '../protocol/version.js';
import { respond } from './answering.js';
import { Backend, CALL_MS } from './backend.js';
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
import {
  type ConversationList,
  type ListConversationsFilter,
  listConversations,
  listConversationsFilterSchema,
} from './conversation-list.js';
import { closeConversation, createConversation, findConversation } from './conversations.js';
import { randomId } from './identity.js';
import { type Inbox, type InboxFilter, inboxFilterSchema, listInbox } from './inbox.js';
import { type ExecutionList, listExecutions } from './listing.js';
import { type ClientOptions, checkConnectOptions, tell } from './options.js';
import { type Readiness, readiness } from './readiness.js';
import { type StartedExecution, startExecution } from './starting.js';
import { type Subscription, subscribe } from './subscribe.js';
import { clientClosed, translate } from './translate.js';

export interface RuntimeDescription {
  readonly name: 'holdfast';
  readonly version: string;
  readonly protocolVersion: string;
  readonly providers: readonly ProviderManifest[];
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
const DEFAULT_RESPOND_MS = 10_000;
const MAX_LONG_POLLS = 100;

export class HoldfastClient {
  private readonly backend: Backend;

  private constructor(connection: Connection, options: ClientOptions) {
    const { namespace = 'default', dataConverter, maxLongPolls = MAX_LONG_POLLS, onThrottled } = options;
    const temporal = new Client({ connection, namespace, ...(dataConverter === undefined ? {} : { dataConverter }) });
    const decode = decoder(dataConverter?.payloadCodecs);
    const reader = new LogReader(new HistoryReader(temporal, namespace, decode));
    this.backend = new Backend({
      tenant: options.tenant ?? DEFAULT_TENANT,
      temporal,
      decode,
      reader,
      followers: new Followers(reader, { maxLongPolls }, (_, count) => tell(onThrottled, count)),
      catalog: new Catalog(temporal, decode),
    });
  }

  get tenant(): string {
    return this.backend.tenant;
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
      connection = await connect({ address, connectTimeout, ...options.connection });
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
    this.backend.closed = true;
    this.backend.followers.close();
    await this.backend.temporal.connection.close();
  }

  /** Executions followed and long polls held at this moment, and how often the server refused one. */
  get load(): { readonly followed: number; readonly polls: number; readonly throttled: number } {
    const { followers } = this.backend;
    return { ...followers.load, throttled: followers.throttled };
  }

  /** This runtime and the providers that its workers announced. */
  async describeRuntime(): Promise<RuntimeDescription> {
    const providers = await this.backend.call('the catalog', () => this.backend.catalog.list());
    return { name: 'holdfast', version: VERSION, protocolVersion: PROTOCOL_VERSION, providers };
  }

  /** Whether the server answers and a worker polls, with what is missing. Throws nothing; takes 3 s at most. */
  async readiness(): Promise<Readiness> {
    if (this.backend.closed) return { ready: false, missing: [clientClosed().message] };
    return await readiness(this.backend.temporal);
  }

  // --- conversations ------------------------------------------------------------------------------------------------

  /**
   * Creates a conversation. Needs no worker. With `closeAfterIdleDays` it closes itself when nothing happened for so
   * many days.
   *
   * @throws HoldfastError `VALIDATION_ERROR`
   */
  async createConversation(request: CreateConversationRequest = {}): Promise<Conversation> {
    const valid = check(createConversationRequestSchema, request, 'request');
    return await this.backend.call('conversation', () => createConversation(this.backend, valid));
  }

  /** @throws HoldfastError `NOT_FOUND` */
  async getConversation(conversationId: string): Promise<Conversation> {
    const id = checkId(conversationId, 'conversationId');
    return (await this.backend.call(`conversation ${id}`, () => findConversation(this.backend, id))).conversation;
  }

  /**
   * Conversations in pages: those that are open, newest first, then those that have closed. From Temporal's visibility:
   * seconds behind.
   *
   * @throws HoldfastError `VALIDATION_ERROR`, `RUNTIME_UNAVAILABLE`
   */
  async listConversations(filter: ListConversationsFilter = {}): Promise<ConversationList> {
    const valid = check(listConversationsFilterSchema, filter, 'filter');
    return await this.backend.call('list of conversations', () => listConversations(this.backend, valid));
  }

  /**
   * Ends a conversation: later starts get `INVALID_STATE`, executions that wait for their turn end as `cancelled`
   * (`not_running`), the one that has the turn goes on. Closing it again changes nothing.
   *
   * @throws HoldfastError `NOT_FOUND`; `RUNTIME_UNAVAILABLE` when no worker took the request within 5 s (it stands).
   */
  async closeConversation(conversationId: string): Promise<Conversation> {
    const id = checkId(conversationId, 'conversationId');
    return await this.backend.call(`conversation ${id}`, () => closeConversation(this.backend, id));
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
    const subject = `conversation ${valid.conversationId}`;
    return await this.backend.call(subject, () => startExecution(this.backend, valid));
  }

  /** The execution as it is now. @throws HoldfastError `NOT_FOUND` */
  async getExecution(executionId: string): Promise<Execution> {
    const id = checkExecutionId(executionId);
    return await this.backend.call(`execution ${id}`, () => this.backend.execution(id));
  }

  /**
   * Executions by state, provider and conversation, newest first, in pages. From Temporal's visibility: seconds behind,
   * and `starting` counts as `queued`.
   */
  async listExecutions(filter: ListExecutionsFilter = {}): Promise<ExecutionList> {
    const valid = check(listExecutionsFilterSchema, filter, 'filter');
    return await this.backend.call('list of executions', () =>
      listExecutions(this.backend.temporal, this.backend.decode, this.tenant, valid),
    );
  }

  /**
   * Open actions across executions, for an inbox: from Temporal's visibility, so seconds behind.
   *
   * @throws HoldfastError `VALIDATION_ERROR`, `RUNTIME_UNAVAILABLE`
   */
  async listPendingActions(filter: InboxFilter = {}): Promise<Inbox> {
    const valid = check(inboxFilterSchema, filter, 'filter');
    return await this.backend.call('list of actions', () =>
      listInbox(this.backend.temporal, this.backend.decode, this.tenant, valid),
    );
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
    return await this.backend.call(`execution ${id}`, async () => {
      const events: HoldfastEvent[] = [];
      for await (const chunk of this.backend.reader.read(this.backend.workflowId(id), after)) {
        for (const event of chunk) if (events.length < limit) events.push(event);
        if (events.length >= limit) break;
      }
      if (events.length === 0 && after > 0) await this.refuseBeyond(id, after);
      return { events, nextCursor: events.at(-1)?.sequence ?? after };
    });
  }

  private async refuseBeyond(id: string, after: number, signal?: AbortSignal): Promise<void> {
    const { fold } = await this.backend.reader.foldRun(this.backend.workflowId(id), undefined, signal);
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
    return this.backend.followers.events(this.backend.workflowId(id), after, {
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
      const { at, events } = await subscribe(this.backend.followers, this.backend.workflowId(id), wanted);
      const next = () => events.next().catch((error) => Promise.reject(translate(error, `execution ${id}`)));
      return { at, events: { ...events, next } };
    } catch (error) {
      throw translate(error, `execution ${id}`);
    }
  }

  /** The artifacts' descriptors, in the order of their creation. */
  async artifacts(executionId: string): Promise<readonly Artifact[]> {
    const id = checkExecutionId(executionId);
    return await this.backend.call(`execution ${id}`, async () => {
      const artifacts: Artifact[] = [];
      for await (const events of this.backend.reader.read(this.backend.workflowId(id), 0))
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
    return await this.backend.follow(id, wait, (follower) =>
      follower.current !== undefined && isEnded(follower.current.state) ? follower.current.execution() : undefined,
    );
  }

  // --- acting on it -------------------------------------------------------------------------------------------------

  /**
   * Answers an action. Resolves once the answer is accepted durably (delivery follows), with the execution as it then
   * was. Needs a worker for nothing but the delivery.
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
  ): Promise<Execution> {
    const id = checkExecutionId(executionId);
    checkId(actionId, 'actionId');
    const given = checkOptions(options);
    const responseId = checkId(given.responseId ?? randomId('resp'), 'responseId');
    const answer = check(actionResponseSchema, response, 'response');
    if (jsonBytes(answer) > MAX_RESPONSE_BYTES)
      throw new HoldfastError('VALIDATION_ERROR', `response: takes more than ${MAX_RESPONSE_BYTES} bytes`);
    const input = { call: randomId('resp'), responseId, actionId, response: answer };
    return await respond(this.backend, id, input, checkTimeout(given.timeoutMs) ?? DEFAULT_RESPOND_MS);
  }

  /**
   * Asks for the execution to be cancelled and returns it as it then is. `run.cancelled` in the log confirms it. On one
   * that has ended this changes nothing.
   *
   * @throws HoldfastError `NOT_FOUND`; `RUNTIME_UNAVAILABLE` when the request may not have reached the server.
   */
  async cancel(executionId: string, reason?: string): Promise<Execution> {
    const id = checkExecutionId(executionId);
    if (reason !== undefined && (typeof reason !== 'string' || reason.length > MAX_MESSAGE_LENGTH)) {
      const given =
        typeof reason === 'string' ? `a text of ${(reason as string).length}` : `of the type ${typeof reason}`;
      const message = `reason: must be a text of at most ${MAX_MESSAGE_LENGTH} characters, and is ${given}`;
      throw new HoldfastError('VALIDATION_ERROR', message);
    }
    return await this.backend.call(`execution ${id}`, async () => {
      const workflowId = this.backend.workflowId(id);
      const handle = this.backend.temporal.workflow.getHandle(workflowId);
      try {
        // The signal carries the reason; only after Temporal's own request can a workflow close as Canceled.
        await handle.signal('cancel', reason === undefined ? {} : { reason });
        await handle.cancel();
      } catch (error) {
        if (grpcCode(error) !== GRPC.NOT_FOUND || isMissingNamespace(error)) throw error;
      }
      return await this.backend.execution(id);
    });
  }
}
