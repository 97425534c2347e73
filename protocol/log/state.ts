/**
 * The state of an execution's log: everything that the reducer knows. It is plain JSON and bounded, because a run hands
 * it to the next one as its start argument (DESIGN §3, Rollover). No clock is in it: times come from the history.
 */
import type { ActionRequest, ActionResponse } from '../action.js';
import type { Confirmation, LogEvent } from '../event.js';
import type { Usage } from '../execution.js';
import type { Json, JsonObject } from '../json.js';
import type { ExecutionState } from '../lifecycle.js';
import type { CapabilityLevel } from '../manifest.js';
import type { TranscriptTurn } from '../turns.js';

/** The version of the reducer; a start argument names the one that its log is folded with (rule 9). */
export const REDUCER_VERSION = 1;

/** What was asked for. Never changes. */
export interface LogRequest {
  readonly input: Json;
  readonly requiredCapabilities: readonly string[];
  readonly preferredCapabilities?: readonly string[];
  readonly config: JsonObject;
  readonly metadata: JsonObject;
  readonly timeoutSeconds?: number;
  /** It drives its conversation's native session (or continues its transcript), so it waits for its turn. */
  readonly needsTurn?: true;
}

/** The host that holds (or held) the provider, as it announced itself. One announcement an attempt: the first. */
export interface Host {
  readonly attempt: number;
  /** Random, drawn by the host: fences off every other host and every earlier attempt. */
  readonly token: string;
  /** Where `deliver` and `stop` reach it; `watch` has a queue of its own beside it. */
  readonly queue: string;
  readonly watchQueue: string;
  readonly providerVersion: string;
  readonly capabilities: Readonly<Record<string, CapabilityLevel>>;
  readonly recovery: 'none' | 'journal';
  readonly lastBatch: number;
  /** Its provider was really called. */
  readonly started: boolean;
  /** It suspended: nothing more of this attempt is taken. */
  readonly suspended: boolean;
}

export interface OpenAction {
  readonly request: ActionRequest;
  /** The attempt that waits for it; a recovered attempt that asks the same again adopts it. */
  readonly attempt: number;
  readonly suspended: boolean;
}

/** How an action ended, kept to answer whoever comes late. */
export interface EndedAction {
  readonly how: 'answered' | 'withdrawn' | 'expired';
  readonly responseId?: string;
  readonly approved?: boolean;
}

/** An answer that an attempt may still need: not handed out yet, or not yet covered by a journal entry. */
export interface HeldAnswer {
  readonly action: ActionRequest;
  readonly response: ActionResponse;
  readonly suspended: boolean;
  /** The attempt that waits for it. */
  readonly attempt: number;
  /** The attempt that it was last handed to. */
  readonly takenBy?: number;
}

export interface Journal {
  readonly count: number;
  readonly bytes: number;
  /** All entries, while together they are small enough to travel; else they are read from the runs that hold them. */
  readonly entries?: readonly Json[];
}

/** Where a recovered attempt goes on: the last journal entry or suspension. */
export interface ResumePoint {
  readonly sequence: number;
  readonly text: string;
  /** Of `text` in JSON, kept beside it so that no one has to measure it again. */
  readonly textBytes: number;
  readonly textCut: boolean;
}

/** Why the run is being stopped, once that is decided. Whichever of cancel and timeout came first. */
export type Ending =
  | { readonly by: 'cancel'; readonly reason?: string }
  /** `expired`: not the execution's own time is over, but that of this action, whose `onExpiry` is `fail`. */
  | { readonly by: 'timeout'; readonly expired?: string };

export type Result =
  | { readonly finalOutput: string; readonly usage?: Usage | undefined }
  | { readonly code: string; readonly message: string; readonly usage?: Usage | undefined }
  | { readonly reason?: string | undefined; readonly confirmation: Confirmation; readonly usage?: Usage | undefined };

export interface LogState {
  readonly version: number;
  readonly executionId: string;
  readonly tenant: string;
  readonly conversationId: string;
  readonly providerId: string;
  readonly request: LogRequest;
  readonly state: ExecutionState;
  /** The last sequence given. */
  readonly sequence: number;
  /** Rolling hash over every accepted effect: equal heads mean equal logs. */
  readonly head: string;
  /** The number of the attempt under way or, before the first, about to be. */
  readonly attempt: number;
  /** That attempt is given up: an announcement that comes late starts nothing any more. Until the next attempt. */
  readonly attemptLost?: true;
  /** Set from the announcement of attempt `attempt` until that attempt is over. */
  readonly host?: Host;
  readonly effectiveConfig?: Json;
  readonly hasStarted: boolean;
  /** The attempt before was lost: the next one to start is a recovery. */
  readonly recovering: boolean;
  readonly recoveries: { readonly total: number; readonly sinceEntry: number };
  /** Attempts in a row, up to the one before, that no host took. */
  readonly untaken?: number;
  readonly open?: OpenAction;
  readonly actions: Readonly<Record<string, EndedAction>>;
  readonly answers: readonly HeldAnswer[];
  readonly artifacts: readonly string[];
  readonly journal: Journal;
  readonly resumePoint: ResumePoint;
  readonly text: string;
  readonly textBytes: number;
  readonly textCut: boolean;
  /** It has its conversation's turn. */
  readonly hasTurn?: true;
  /** Earlier turns of the conversation, for emulated continuity. */
  readonly transcript?: readonly TranscriptTurn[];
  readonly session?: Json;
  /** What was reported to be used, by all attempts. */
  readonly usage?: Usage;
  readonly ending?: Ending;
  readonly result?: Result;
}

/** What one input did. */
export interface Step {
  readonly state: LogState;
  readonly events: readonly LogEvent[];
  /** Journal entries that were accepted. */
  readonly entries: readonly Json[];
  readonly verdict?: { readonly call?: string | undefined; readonly verdict: Verdict };
}

/** What came of an answer. */
export type Verdict =
  | { readonly accepted: true }
  | {
      readonly accepted: false;
      readonly code: 'VALIDATION_ERROR' | 'ACTION_NOT_FOUND' | 'ACTION_ALREADY_RESOLVED' | 'INVALID_STATE';
      readonly message: string;
      readonly how?: EndedAction['how'];
      readonly approved?: boolean;
    };
