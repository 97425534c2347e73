/**
 * The provider SPI: what a harness has to bring to run under Holdfast. One object with a manifest, a schema for its
 * configuration and `run`. Everything durable (the log, answers, cancellation, recovery) is the runtime's work.
 *
 * @example
 * export const echo: Provider<{ upper: boolean }> = {
 *   manifest: { id: 'echo', name: 'Echo', version: '1.0.0', protocolVersion: PROTOCOL_VERSION,
 *               topologies: ['embedded'], capabilities: { 'execution.cancel': 'native' } },
 *   config: z.strictObject({ upper: z.boolean().default(false) }),
 *   async run(ctx) {
 *     const text = String(ctx.input);
 *     await ctx.emit('output.text.delta', { text: ctx.config.upper ? text.toUpperCase() : text });
 *     return {};
 *   },
 * };
 */
import type { z } from 'zod';
import type { ActionKind, ActionResponse, OnExpiry } from '../protocol/action.js';
import type { Artifact, ArtifactDescriptor } from '../protocol/artifact.js';
import type { Usage } from '../protocol/execution.js';
import type { Json, JsonObject } from '../protocol/json.js';
import type { ProviderManifest } from '../protocol/manifest.js';
import type { TranscriptTurn } from '../protocol/turns.js';

export type Recovery = 'none' | 'journal';

export interface Provider<C = unknown> {
  readonly manifest: ProviderManifest;
  /** Strict: unknown keys are refused. Its JSON Schema is published with the manifest, so callers are told at once. */
  readonly config: z.ZodType<C>;
  /**
   * `journal`: a lost attempt is started again with all that it recorded. `none` (default): it ends as
   * `PROVIDER_LOST`. Decided once per attempt, before `run` is called.
   */
  readonly recovery?: Recovery | ((config: C) => Recovery);
  /**
   * Does the work. Resolves when the harness is done, or with what `ctx.suspend` returned. Rejecting fails the
   * execution: a `HoldfastError` keeps its code, anything else becomes `PROVIDER_ERROR` with its message.
   *
   * After `ctx.signal` aborts it should stop what it started and settle soon; nothing it sends is logged or recorded
   * any more.
   */
  run(ctx: RunContext<C>): Promise<RunResult>;
  /**
   * Called once by every worker that has this provider, before it takes executions: the place to check what the machine
   * has to have, and to begin what runs beside executions. Rejecting keeps the worker from starting, with that error.
   * Resolves with what ends it again, called when the worker has drained.
   */
  start?(host: ProviderHost): Promise<(() => Promise<void>) | undefined>;
  /** Native cleanup when the run is being stopped: called at most once per attempt, beside the abort of the signal. */
  cancel?(ctx: RunContext<C>): Promise<void>;
}

export interface RunResult {
  /** Without one, the final output is all the text that was emitted. */
  readonly finalOutput?: string;
  readonly usage?: Usage;
  /** After an abort: true when processes had to be killed, since they did not end when asked. */
  readonly forced?: boolean;
  /** Set by `ctx.suspend`; never by hand. */
  readonly suspended?: true;
}

/** Names a conversation in the whole cluster. */
export interface ConversationRef {
  readonly tenant: string;
  readonly id: string;
}

/** What a worker lends a provider outside of executions. */
export interface ProviderHost {
  /** To the worker's log. */
  log(level: 'debug' | 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void;
  /**
   * Of these, the ones that are closed and in which nothing runs any more. One that the server does not know is not
   * among them. Rejects when the server does not answer.
   */
  closedConversations(conversations: readonly ConversationRef[]): Promise<readonly ConversationRef[]>;
}

/** A question to a person. */
export interface ActionQuestion {
  readonly kind: ActionKind;
  readonly title: string;
  readonly description?: string;
  /** What the person decides on, e.g. the tool call. With `options`, an answer names one (DESIGN §1). */
  readonly payload?: Json;
  /**
   * Of an input: the JSON Schema (of what `protocol/value-schema.ts` takes) that the value has to fit. An answer that
   * does not fit is refused and the action stays open. A schema that is not taken rejects with `PROVIDER_ERROR`.
   */
  readonly valueSchema?: JsonObject;
  /** It expires if nobody answers: so many seconds from now, or at this time (ISO 8601, UTC). One of the two. */
  readonly timeoutSeconds?: number;
  readonly expiresAt?: string;
  /**
   * What comes of it then. `reject` (default): this question gets `{approved: false, metadata: {expired: true}}`.
   * `fail`: the run is stopped and the execution fails as `EXECUTION_TIMEOUT`.
   */
  readonly onExpiry?: OnExpiry;
}

export interface Resume {
  /** All journal entries of earlier attempts, oldest first. */
  readonly journal: readonly Json[];
  /** The answer to the action this execution had suspended for. */
  readonly response?: ActionResponse;
}

export interface RunContext<C = unknown> {
  /** `attempt` counts from 1. */
  readonly execution: { readonly id: string; readonly attempt: number };
  /** `session` is what an earlier turn gave to `setSession`; `transcript` the newest finished turns, oldest first. */
  readonly conversation: ConversationRef & {
    readonly session?: Json;
    readonly transcript: readonly TranscriptTurn[];
  };
  readonly input: Json;
  readonly config: C;
  /** Aborts when the run has to stop: cancel, timeout, drain, or because this host lost the right to run it. */
  readonly signal: AbortSignal;
  /** Set when this attempt continues an earlier one. */
  readonly resume?: Resume;
  /**
   * Appends to the log, in order. Resolves at once while there is room; under back-pressure when there is some again.
   * Text longer than 64 KiB is split; other data over its bound rejects with `PROVIDER_ERROR`.
   */
  emit(type: 'output.text.delta', data: { text: string }): Promise<void>;
  emit(type: 'provider.event', data: { name: string } & JsonObject): Promise<void>;
  /** Puts an artifact's descriptor into the log; never its bytes. Ids are unique in an execution. */
  artifact(descriptor: ArtifactDescriptor): Promise<Artifact>;
  /**
   * Asks a person and waits. One action is pending at a time; further calls wait their turn. Aborting `signal`
   * withdraws the action. Rejects with an `AbortError` when withdrawn by that or by the end of the run.
   */
  requestAction(question: ActionQuestion & { readonly signal?: AbortSignal }): Promise<ActionResponse>;
  /**
   * Asks a person without waiting: the attempt ends here, nothing is held, and the answer (a month later, say) starts
   * the next one with `resume.response`. Usage: `return ctx.suspend({ … })`. Needs recovery `journal`.
   */
  suspend(question: ActionQuestion): Promise<RunResult>;
  /**
   * Reports what the execution has used so far, in all: each report replaces the one before, figure by figure. What was
   * reported is the execution's `usage` also when it fails or is cancelled. Rejects with `PROVIDER_ERROR` for what is none.
   */
  reportUsage(usage: Usage): Promise<void>;
  /** Appends a private journal entry; resolves when it is durable. Record only what is new. */
  record(entry: Json): Promise<void>;
  /** Remembers the native session of this conversation for its next turn. */
  setSession(session: Json): Promise<void>;
  /**
   * Says that the harness no longer has `conversation.session`, and why: `provider.event` `runtime.session_lost`. When
   * the manifest's `conversation.continuity` is `native` this rejects with `PROVIDER_ERROR`: let it, and the execution
   * fails with that message. Else it resolves, and the provider may begin a new session.
   */
  sessionLost(message: string): Promise<void>;
  /** Diagnostics to the worker's log, with the execution's id. Never shown to callers. */
  log(level: 'debug' | 'info' | 'warn' | 'error', message: string, fields?: Record<string, unknown>): void;
}

/**
 * The reason of `ctx.signal` when this host lets go of a run that may go on elsewhere: it drains, or it lost the server.
 * With recovery `journal`, leave alone what the next attempt will go on with. Any other reason means that the execution
 * is over.
 */
export class HandedOver extends DOMException {
  constructor(why: string) {
    super(why, 'AbortError');
  }
}

/** The shape `createWorker` takes providers of any configuration in. */
// biome-ignore lint/suspicious/noExplicitAny: a list of providers holds many different configuration types
export type AnyProvider = Provider<any>;
