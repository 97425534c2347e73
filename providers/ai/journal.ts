/**
 * What the loop records: each model answer, each decision and each tool result once, and nothing twice. The state of a
 * loop is the fold of its entries, in a first attempt as in a recovered one.
 */
import { HoldfastError } from '../../protocol/errors.js';
import { type Json, type JsonObject, jsonBytes } from '../../protocol/json.js';
import { KIB } from '../../protocol/limits.js';

/** A piece of a model's answer. `options` is what the model's API wants back with it (signatures and the like). */
export type Part =
  | { readonly text: string; readonly options?: JsonObject }
  | { readonly thought: string; readonly options?: JsonObject }
  | {
      readonly callId: string;
      readonly tool: string;
      readonly input: JsonObject;
      /** Why it is not run: its arguments or its tool are not there. */
      readonly problem?: string;
      readonly options?: JsonObject;
    };

export interface TokenUsage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly reasoningTokens: number;
  readonly cachedInputTokens: number;
}

export type Entry =
  | {
      readonly kind: 'turn';
      readonly parts: readonly Part[];
      readonly finish: string;
      readonly usage: TokenUsage;
      /** Requests that it took. */
      readonly requests: number;
      readonly ms: number;
      /** Text of a request that failed is in the log, and in no turn. */
      readonly discarded?: true;
    }
  /** A person is about to be asked. */
  | { readonly kind: 'ask'; readonly callId: string }
  | ({ readonly kind: 'answer'; readonly callId: string } & CallAnswer)
  /** The tool is about to run, and must not run a second time. */
  | { readonly kind: 'start'; readonly callId: string }
  | {
      readonly kind: 'result';
      readonly callId: string;
      readonly output: string;
      readonly isError: boolean;
      readonly ms: number;
    };

/** What decided on a call. */
export interface CallAnswer {
  readonly approved: boolean;
  /** What a person said with it. */
  readonly said?: string;
  /** The rule that answered in the place of a person. */
  readonly rule?: string;
  /** The question, when a person's answer to it stands until the execution ends. */
  readonly stands?: string;
}

export interface Call {
  readonly callId: string;
  readonly tool: string;
  readonly input: JsonObject;
  readonly problem?: string;
  asked: boolean;
  answer?: CallAnswer;
  started: boolean;
  result?: { readonly output: string; readonly isError: boolean };
}

export interface Turn {
  readonly parts: readonly Part[];
  readonly finish: string;
  readonly calls: readonly Call[];
}

/** Everything that a loop knows. */
export interface LoopState {
  readonly turns: Turn[];
  readonly calls: Map<string, Call>;
  usage: TokenUsage;
  requests: number;
  /** Milliseconds of work. */
  ms: number;
  /** The log holds text that is in no turn. */
  discarded: boolean;
  /** Answers that stand until the execution ends, by question. */
  readonly standing: Map<string, boolean>;
}

export function emptyState(): LoopState {
  const usage = { inputTokens: 0, outputTokens: 0, reasoningTokens: 0, cachedInputTokens: 0 };
  return { turns: [], calls: new Map(), usage, requests: 0, ms: 0, discarded: false, standing: new Map() };
}

export function applyEntry(state: LoopState, entry: Entry): void {
  if (entry.kind === 'turn') return applyTurn(state, entry);
  const call = state.calls.get(entry.callId);
  if (call === undefined) throw foreign();
  switch (entry.kind) {
    case 'ask':
      call.asked = true;
      return;
    case 'answer':
      call.answer = entry;
      if (entry.stands !== undefined) state.standing.set(entry.stands, entry.approved);
      return;
    case 'start':
      call.started = true;
      return;
    case 'result':
      call.result = entry;
      state.ms += entry.ms;
      return;
    default:
      throw foreign(entry satisfies never);
  }
}

function applyTurn(state: LoopState, entry: Extract<Entry, { kind: 'turn' }>): void {
  const calls = entry.parts.flatMap((part): Call[] =>
    'callId' in part ? [{ ...part, asked: false, started: false }] : [],
  );
  for (const call of calls) state.calls.set(call.callId, call);
  state.turns.push({ parts: entry.parts, finish: entry.finish, calls });
  state.usage = addUsage(state.usage, entry.usage);
  state.requests += entry.requests;
  state.ms += entry.ms;
  if (entry.discarded) state.discarded = true;
}

export function addUsage(a: TokenUsage, b: TokenUsage): TokenUsage {
  return {
    inputTokens: a.inputTokens + b.inputTokens,
    outputTokens: a.outputTokens + b.outputTokens,
    reasoningTokens: a.reasoningTokens + b.reasoningTokens,
    cachedInputTokens: a.cachedInputTokens + b.cachedInputTokens,
  };
}

/** Under the contract's 256 KiB for one entry. */
const MAX_WHOLE_BYTES = 200 * KIB;
/** UTF-16 units of JSON text: three bytes each at most, or an escape of two. */
const PIECE_LENGTH = 60 * KIB;

/** `entry` as the values to record, in order: itself, or the pieces of its text when it is too large for one. */
export function encodeEntry(entry: Entry): Json[] {
  if (jsonBytes(entry) <= MAX_WHOLE_BYTES) return [entry as unknown as Json];
  const text = JSON.stringify(entry);
  const pieces: Json[] = [];
  for (let at = 0; at < text.length; at += PIECE_LENGTH) {
    const end = at + PIECE_LENGTH;
    pieces.push({ kind: 'piece', text: text.slice(at, end), first: at === 0, last: end >= text.length });
  }
  return pieces;
}

/**
 * Folds a journal. Pieces whose last one is missing belong to an entry that was never complete and are dropped. Throws
 * `PROVIDER_ERROR` for a journal that this version did not write.
 */
export function foldJournal(journal: readonly Json[]): LoopState {
  const state = emptyState();
  let text = '';
  for (const value of journal) {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) throw foreign();
    if (value.kind !== 'piece') {
      text = '';
      applyEntry(state, value as unknown as Entry);
      continue;
    }
    // An attempt that died among its pieces left some behind.
    text = (value.first === true ? '' : text) + String(value.text);
    if (value.last !== true) continue;
    applyEntry(state, JSON.parse(text) as Entry);
    text = '';
  }
  return state;
}

function foreign(_?: never): HoldfastError {
  return new HoldfastError(
    'PROVIDER_ERROR',
    'the journal holds an entry that this version of the provider does not know',
  );
}
