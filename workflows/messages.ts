/**
 * What passes between the workflows and everybody else: names, queues, arguments. Safe on both sides of the sandbox:
 * nothing of Node and nothing of a workflow's body is in it.
 *
 * Answers and cancels are signals, not updates: the caller learns the verdict by folding its own response id from
 * history. That is as quick, costs one history event less, and works with no worker and across rollover (DESIGN §3,
 * rule 7). Queries are for the Temporal UI alone.
 */
import type { Confirmation, HoldfastEvent } from '../protocol/event.js';
import type { Json, JsonObject } from '../protocol/json.js';
import type { Settled } from '../protocol/log/inputs.js';
import type { LogIdentity } from '../protocol/log/reduce.js';
import type { LogRequest, LogState } from '../protocol/log/state.js';
import type { ProviderManifest } from '../protocol/manifest.js';
import type { TurnsState } from '../protocol/turns.js';

/** All workflows run here, polled by every worker. A provider's own queue carries only `run`. */
export const WORKFLOW_QUEUE = 'holdfast';

export function providerQueue(providerId: string): string {
  return `holdfast-provider-${providerId}`;
}

export const WORKFLOW_TYPES = { execution: 'execution', conversation: 'conversation', catalog: 'catalog' } as const;

/** Shorter than the server's 10 s: while a task is started the server shows no new signals to readers. */
export const WORKFLOW_TASK_TIMEOUT_MS = 5_000;

/** Keyword search attributes, registered by `holdfast setup` and by the development server. */
export const SEARCH_ATTRIBUTES = {
  state: 'HoldfastState',
  provider: 'HoldfastProvider',
  conversation: 'HoldfastConversation',
  tenant: 'HoldfastTenant',
} as const;

/** Memo keys. `mark` is the log's (see protocol/log/inputs.ts); the others make lists readable without a worker. */
export const MEMO = {
  mark: 'mark',
  execution: 'execution',
  fingerprint: 'fingerprint',
  action: 'action',
  conversation: 'conversation',
  catalog: 'catalog',
} as const;

/** The memo snapshot of an execution: readable from a list, also before any worker has seen it. */
export interface ExecutionMemo {
  readonly id: string;
  readonly conversationId: string;
  readonly providerId: string;
  readonly createdAt?: string;
  readonly metadata: JsonObject;
}

/** The open action in the memo, so that an inbox is one list call. */
export interface ActionMemo {
  readonly id: string;
  readonly kind: 'approval' | 'input';
  readonly title: string;
  readonly createdAt: string;
  readonly expiresAt?: string;
}

// --- execution ------------------------------------------------------------------------------------------------------

/** How a provider's pool wants its executions to be watched; announced with the manifest. All in milliseconds. */
export interface PoolSettings {
  /** Without a heartbeat for this long, a host is suspected. */
  readonly heartbeatTimeoutMs: number;
  /** A suspected host has this long to take a `watch` before its attempt counts as lost. */
  readonly leaseMs: number;
  /** A provider told to stop has this long to settle before it counts as abandoned. */
  readonly stopGraceMs: number;
}

export const DEFAULT_POOL_SETTINGS: PoolSettings = { heartbeatTimeoutMs: 30_000, leaseMs: 15_000, stopGraceMs: 15_000 };

/** A closed run of an execution, or the part of the log that it holds. */
export interface Segment {
  readonly runId: string;
  readonly first: number;
  readonly last: number;
  /** How many journal entries it holds. */
  readonly entries: number;
}

/** Times of what happened before a run began: the reader's own knowledge, no part of the log's state. */
export interface LogTimes {
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly startedAt?: string;
  readonly endedAt?: string;
  /** When each action ended. */
  readonly actions: Readonly<Record<string, string>>;
}

/** What a run hands to the next one. */
export interface Carry {
  readonly state: LogState;
  readonly segments: readonly Segment[];
  readonly times: LogTimes;
}

/** The start argument of `execution`. */
export interface ExecutionStart {
  readonly version: number;
  readonly identity: LogIdentity;
  /** Absent when `carry` is there. */
  readonly request?: LogRequest;
  readonly taskQueue: string;
  readonly pool: PoolSettings;
  /** ISO 8601; absent in the first run, whose own start it is. */
  readonly createdAt?: string;
  readonly carry?: Carry;
}

/** The result of an execution's workflow that succeeded. */
export interface ExecutionResult {
  readonly state: 'succeeded';
  readonly finalOutput: string;
}

export const EVENTS_QUERY = 'events';
export interface EventsPage {
  readonly events: readonly HoldfastEvent[];
  /** The cursor of the next page; absent at the end of what this run holds. */
  readonly next?: number;
}

// --- activities -----------------------------------------------------------------------------------------------------

export interface AttemptRef {
  readonly workflowId: string;
  readonly attempt: number;
}

export type RunInput = AttemptRef & { readonly providerId: string; readonly pool: PoolSettings };

export interface HostRef extends AttemptRef {
  readonly token: string;
}

/** What `run` and `watch` return. They never throw for anything that a provider did. */
export type HostOutcome =
  /** The provider's end, or its suspension, is in the log. */
  | { readonly kind: 'logged' }
  /** It ended without one. */
  | { readonly kind: 'settled'; readonly result: Settled }
  /** The run has to be continued as new; the provider lives on in its host. */
  | { readonly kind: 'rollover' }
  /** It was stopped by `stop`. */
  | { readonly kind: 'stopped'; readonly confirmation: Confirmation }
  /** This run came out of a *Reset*: it adds nothing to the log and runs no provider. */
  | { readonly kind: 'reset' }
  /** The activity is no longer the one that counts; another one decides. */
  | { readonly kind: 'superseded'; readonly message: string };

export interface DeliverInput extends HostRef {
  /** An answer for an action that the provider waits for, or the wish to roll over. */
  readonly answer?: { readonly actionId: string; readonly response: Json };
  readonly rollover?: boolean;
}

export interface StopInput extends HostRef {
  readonly reason: 'cancel' | 'timeout';
  readonly graceMs: number;
}

export interface StopOutcome {
  readonly confirmation: Confirmation;
}

export interface FoldCheck {
  readonly head: string;
  readonly times: LogTimes;
}

/** On a provider's queue, and on the host's own. */
export interface HostActivities {
  run(input: RunInput): Promise<HostOutcome>;
  watch(input: HostRef & { readonly pool: PoolSettings }): Promise<HostOutcome>;
  deliver(input: DeliverInput): Promise<void>;
  stop(input: StopInput): Promise<StopOutcome>;
}

/** On the workflow queue: what a workflow cannot do by itself. */
export interface CoreActivities {
  /** Asks Temporal to cancel this workflow: only then can it close as Canceled. */
  requestCancel(): Promise<void>;
  /** Folds this run's history up to its mark number `marks` and returns the head that a reader has there. */
  foldCheck(input: { readonly marks: number }): Promise<FoldCheck>;
  /** Which of these workflows have ended, or never were. */
  goneOf(input: { readonly workflowIds: readonly string[] }): Promise<readonly string[]>;
}

// --- conversation and catalog ---------------------------------------------------------------------------------------

/** The conversation as its memo holds it. `createdAt` is there from its second run on; before, its start is it. */
export interface ConversationMemo {
  readonly id: string;
  readonly metadata: JsonObject;
  readonly createdAt?: string;
  /** It closes itself when nothing happens. */
  readonly closesWhenIdle?: true;
  /** No execution is taken any more. */
  readonly closed?: true;
}

export interface ConversationStart {
  readonly version: number;
  readonly tenant: string;
  readonly conversation: ConversationMemo;
  /** Closes itself when nothing happened for so many days. */
  readonly closeAfterIdleDays?: number;
  /** Who has the turn and who waits, from the run before. */
  readonly turns?: TurnsState;
  /** What the run before decided to send and left to this one. */
  readonly unsent?: readonly Unsent[];
}

/** A signal to an execution: its turn, or that it is to be cancelled. */
export type Unsent =
  | { readonly to: string; readonly signal: 'turn'; readonly providerId: string }
  | { readonly to: string; readonly signal: 'cancel'; readonly reason: string };

/** Signals of a conversation; see protocol/turns.ts for what they do. */
export const CONVERSATION_SIGNALS = {
  enqueue: 'enqueue',
  ready: 'ready',
  release: 'release',
  gone: 'gone',
  close: 'close',
  /** An execution that takes no turn was started: the conversation is in use. */
  touch: 'touch',
} as const;

/** The update that takes an execution in only if nobody holds or awaits the turn (`onBusy: reject`). */
export const ADMIT_UPDATE = 'admit';
export interface AdmitAnswer {
  readonly admitted: boolean;
  readonly closed: boolean;
  /** Who has the turn, when somebody has. */
  readonly holder?: string;
}

export const CATALOG_WORKFLOW_ID = 'holdfast-catalog';

export interface CatalogEntry {
  readonly manifest: ProviderManifest;
  readonly taskQueue: string;
  readonly pool: PoolSettings;
}

export interface CatalogStart {
  readonly version: number;
  readonly entries: Readonly<Record<string, CatalogEntry>>;
}

export const CATALOG_ANNOUNCE = 'announce';
