/**
 * Who may drive a conversation: one execution at a time, in the order in which they were accepted. Pure: the
 * conversation's workflow folds its messages through `takeTurns` and acts on what it returns.
 *
 * An execution is *enqueued* by the client just before it is started and says by itself when it is *ready*; an id that
 * was enqueued but never started, or has ended, is passed over. A holder keeps its turn until it *releases* it, also
 * while it is suspended; one that was terminated is found to be *gone*.
 */
import { type Json, jsonBytes, tailWithin } from './json.js';
import { KIB, MAX_SESSION_BYTES } from './limits.js';

/** One finished turn, for providers whose continuity is emulated. */
export interface TranscriptTurn {
  readonly executionId: string;
  readonly input: Json;
  readonly output: string;
}

export interface WaitingTurn {
  readonly executionId: string;
  /** Set once the execution said that it is there. */
  readonly providerId?: string;
}

export interface TurnsState {
  readonly waiting: readonly WaitingTurn[];
  readonly holder?: string;
  /** The native session reference, by provider. */
  readonly sessions: Readonly<Record<string, Json>>;
  /** The newest turns, whole. */
  readonly transcript: readonly TranscriptTurn[];
  readonly turns: number;
  readonly closed: boolean;
}

export type TurnInput =
  /** `first`: before all who wait. `interrupt`: whoever has the turn is cancelled for it. */
  | {
      readonly kind: 'enqueue';
      readonly executionId: string;
      readonly first?: boolean;
      readonly interrupt?: boolean;
    }
  | { readonly kind: 'ready'; readonly executionId: string; readonly providerId: string }
  | {
      readonly kind: 'release';
      readonly executionId: string;
      readonly providerId: string;
      readonly session?: Json;
      readonly turn?: TranscriptTurn;
    }
  /** It has ended, or (`unseen`) was not to be found: then one that has said that it is ready since is still there. */
  | { readonly kind: 'gone'; readonly executionId: string; readonly unseen?: boolean }
  /** It is in use: an execution that takes no turn was started. */
  | { readonly kind: 'touch' }
  | { readonly kind: 'close' };

export interface TurnStep {
  readonly state: TurnsState;
  /** Has the turn from now on. */
  readonly grant?: Required<WaitingTurn>;
  /** Are to be cancelled: the conversation is closed, or they are interrupted. */
  readonly cancel: readonly string[];
}

/** What of a conversation is remembered for emulated continuity. */
export const MAX_TRANSCRIPT_TURNS = 50;
export const MAX_TRANSCRIPT_BYTES = 64 * KIB;
/** Of one turn. A longer input is left out, a longer output keeps its end: turns are never cut in the middle. */
export const MAX_TURN_BYTES = 16 * KIB;

/** What comes with a turn is carried from run to run: a transcript and a session reference, in what they are wrapped in. */
export const MAX_TURN_SIGNAL_BYTES = MAX_TRANSCRIPT_BYTES + MAX_SESSION_BYTES + KIB;

export const NO_TURNS: TurnsState = { waiting: [], sessions: {}, transcript: [], turns: 0, closed: false };

/** One message. Total: what makes no sense changes nothing. */
export function takeTurns(state: TurnsState, input: TurnInput): TurnStep {
  return grantNext(change(state, input), toCancel(state, input));
}

function toCancel(state: TurnsState, input: TurnInput): readonly string[] {
  if (input.kind === 'close') return state.closed ? [] : state.waiting.map((each) => each.executionId);
  // It slipped in while the conversation closed.
  if (input.kind === 'ready' && state.closed && state.holder !== input.executionId) return [input.executionId];
  const interrupts = input.kind === 'enqueue' && input.interrupt === true && !state.closed;
  // Sent again (a retry), it never interrupts itself.
  return interrupts && state.holder !== undefined && !knows(state, input.executionId) ? [state.holder] : [];
}

function change(state: TurnsState, input: TurnInput): TurnsState {
  switch (input.kind) {
    case 'enqueue': {
      if (state.closed || knows(state, input.executionId)) return state;
      const entry = { executionId: input.executionId };
      return { ...state, waiting: input.first === true ? [entry, ...state.waiting] : [...state.waiting, entry] };
    }
    case 'ready': {
      if (state.closed || state.holder === input.executionId) return state;
      const ready = { executionId: input.executionId, providerId: input.providerId };
      return knows(state, input.executionId)
        ? { ...state, waiting: state.waiting.map((each) => (each.executionId === input.executionId ? ready : each)) }
        : { ...state, waiting: [...state.waiting, ready] };
    }
    case 'release':
      return { ...without(state, input.executionId), ...remembered(state, input) };
    case 'gone':
      return input.unseen === true && isThere(state, input.executionId) ? state : without(state, input.executionId);
    case 'touch':
      return state;
    case 'close':
      return { ...state, closed: true };
    default:
      return input satisfies never;
  }
}

function isThere(state: TurnsState, executionId: string): boolean {
  return state.waiting.some((each) => each.executionId === executionId && each.providerId !== undefined);
}

function knows(state: TurnsState, executionId: string): boolean {
  return state.holder === executionId || state.waiting.some((each) => each.executionId === executionId);
}

function without(state: TurnsState, executionId: string): TurnsState {
  const { holder, ...rest } = state;
  const waiting = state.waiting.filter((each) => each.executionId !== executionId);
  return { ...rest, waiting, ...(holder === undefined || holder === executionId ? {} : { holder }) };
}

function remembered(
  state: TurnsState,
  input: Extract<TurnInput, { kind: 'release' }>,
): Pick<TurnsState, 'sessions' | 'transcript' | 'turns'> {
  const sessions =
    input.session === undefined ? state.sessions : { ...state.sessions, [input.providerId]: input.session };
  const transcript = input.turn === undefined ? state.transcript : bounded([...state.transcript, whole(input.turn)]);
  return { sessions, transcript, turns: state.turns + 1 };
}

function whole(turn: TranscriptTurn): TranscriptTurn {
  return { ...turn, input: briefInput(turn.input), output: tailWithin(turn.output, MAX_TURN_BYTES) };
}

/** An input as a transcript keeps it. */
export function briefInput(input: Json): Json {
  return jsonBytes(input) > MAX_TURN_BYTES ? '(the input was too long to be kept)' : input;
}

function bounded(turns: readonly TranscriptTurn[]): readonly TranscriptTurn[] {
  let bytes = 0;
  let from = turns.length;
  while (from > 0 && turns.length - from < MAX_TRANSCRIPT_TURNS) {
    bytes += jsonBytes(turns[from - 1]);
    if (bytes > MAX_TRANSCRIPT_BYTES) break;
    from -= 1;
  }
  return turns.slice(from);
}

function grantNext(state: TurnsState, cancel: readonly string[]): TurnStep {
  const [head, ...waiting] = state.waiting;
  if (state.holder !== undefined || head?.providerId === undefined) return { state, cancel };
  const grant = { executionId: head.executionId, providerId: head.providerId };
  return { state: { ...state, holder: head.executionId, waiting }, grant, cancel };
}
