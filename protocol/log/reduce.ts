/**
 * The log's reducer: `reduce(state, input)` is pure, total and version-pinned. The workflow and every reader fold the
 * same inputs in history order through it, so they cannot disagree (DESIGN §3). What it does not know or does not
 * allow changes nothing.
 */
import { type AskedAction, actionResponseSchema, askedProblem, withDigest } from '../action.js';
import { nativeNameProblem } from '../event.js';
import type { Usage } from '../execution.js';
import { clip, jsonBytes, tailWithin } from '../json.js';
import { isTerminal } from '../lifecycle.js';
import { MAX_ACTIONS, MAX_ARTIFACTS, MAX_MESSAGE_LENGTH, MAX_TEXT_BYTES } from '../limits.js';
import { MAX_TURN_SIGNAL_BYTES } from '../turns.js';
import { boundHeld, judge } from './answers.js';
import { Draft, unchanged } from './draft.js';
import { EMPTY_HEAD } from './head.js';
import {
  type Announcement,
  type LogInput,
  markSchema,
  type ParsedBatchItem,
  type Respond,
  SIGNALS,
  type Turn,
  UNDECODABLE,
} from './inputs.js';
import { cancel, reduceMark } from './marks.js';
import { type LogRequest, type LogState, REDUCER_VERSION, type Step } from './state.js';

export interface LogIdentity {
  readonly executionId: string;
  readonly tenant: string;
  readonly conversationId: string;
  readonly providerId: string;
}

/** The first step of a new execution: `run.queued`. */
export function begin(identity: LogIdentity, request: LogRequest): Step {
  const draft = new Draft({
    version: REDUCER_VERSION,
    ...identity,
    request,
    state: 'queued',
    sequence: 0,
    head: EMPTY_HEAD,
    attempt: 1,
    hasStarted: false,
    recovering: false,
    recoveries: { total: 0, sinceEntry: 0 },
    actions: {},
    answers: [],
    artifacts: [],
    journal: { count: 0, bytes: 0, entries: [] },
    resumePoint: { sequence: 0, text: '', textBytes: 0, textCut: false },
    text: '',
    textBytes: 0,
    textCut: false,
  });
  draft.emit({ type: 'run.queued', data: { providerId: identity.providerId } });
  return draft.step();
}

/** One input. Total: it never throws, and an input that it cannot take leaves the state as it is. */
export function reduce(state: LogState, input: LogInput): Step {
  if (input.kind === 'mark') {
    const mark = markSchema.safeParse(input.mark);
    return mark.success ? reduceMark(state, mark.data) : unchanged(state);
  }
  if (input.args.includes(UNDECODABLE)) return unchanged(state);
  switch (input.name) {
    case 'announce': {
      const parsed = SIGNALS.announce.safeParse(input.args[0]);
      return parsed.success ? announce(state, parsed.data) : unchanged(state);
    }
    case 'append': {
      const parsed = SIGNALS.append.safeParse(input.args[0]);
      return parsed.success ? append(state, parsed.data.token, parsed.data.batch, parsed.data.items) : unchanged(state);
    }
    case 'respond': {
      const parsed = SIGNALS.respond.safeParse(input.args[0]);
      return parsed.success ? respond(state, parsed.data) : unchanged(state);
    }
    case 'cancel': {
      // From the Temporal UI the argument is often missing, or a bare text: the wish to cancel is clear all the same.
      const argument = input.args[0];
      const parsed = SIGNALS.cancel.safeParse(typeof argument === 'string' ? { reason: argument } : argument);
      return cancel(state, parsed.success ? parsed.data.reason : undefined);
    }
    case 'turn': {
      const parsed = SIGNALS.turn.safeParse(input.args[0]);
      return parsed.success ? takeTurn(state, parsed.data) : unchanged(state);
    }
    default:
      return unchanged(state);
  }
}

function takeTurn(state: LogState, turn: Turn): Step {
  const over = isTerminal(state.state) || state.ending !== undefined;
  if (over || state.request.needsTurn !== true || state.hasTurn || jsonBytes(turn) > MAX_TURN_SIGNAL_BYTES)
    return unchanged(state);
  const draft = new Draft(state);
  draft.state.hasTurn = true;
  if (turn.session !== undefined) draft.state.session = turn.session;
  if (turn.transcript.length > 0) draft.state.transcript = turn.transcript;
  draft.accept('turn', [turn.session ?? null, turn.transcript.length]);
  return draft.step();
}

function announce(state: LogState, announcement: Announcement): Step {
  if (isTerminal(state.state) || announcement.attempt !== state.attempt) return unchanged(state);
  // One announcement an attempt, the first; and none that comes after the attempt was given up.
  if (state.host !== undefined || state.attemptLost) return unchanged(state);
  const draft = new Draft(state);
  const { attempt, token, queue, watchQueue, providerVersion, capabilities, recovery, effectiveConfig } = announcement;
  draft.state.host = {
    attempt,
    token,
    queue,
    watchQueue,
    providerVersion,
    capabilities,
    recovery,
    lastBatch: 0,
    started: false,
    suspended: false,
  };
  draft.state.effectiveConfig = effectiveConfig;
  delete draft.state.untaken;
  draft.accept('announce', [attempt, token]);
  if (state.state === 'queued') draft.moveTo('starting');
  return draft.step();
}

function append(state: LogState, token: string, batch: number, items: readonly ParsedBatchItem[]): Step {
  if (state.host === undefined || state.host.token !== token || batch <= state.host.lastBatch) return unchanged(state);
  const draft = new Draft(state);
  draft.state.host = { ...state.host, lastBatch: batch };
  for (const item of items) {
    const host = draft.state.host;
    // Once it is decided that the run ends, nothing more of the provider enters the log.
    if (host === undefined || host.suspended || draft.state.ending !== undefined || isTerminal(draft.state.state))
      break;
    appendItem(draft, item, host.attempt);
  }
  return draft.step();
}

function appendItem(draft: Draft, item: ParsedBatchItem, attempt: number): void {
  const state = draft.state;
  if (item.kind === 'started') return started(draft, attempt, item.took);
  if (!state.host?.started) return;
  switch (item.kind) {
    case 'text':
      draft.addText(item.text);
      return draft.emit({ type: 'output.text.delta', data: { text: item.text } });
    case 'native':
      if (nativeNameProblem(item.data.name) !== undefined) return;
      return draft.emit({ type: 'provider.event', data: item.data });
    case 'artifact':
      // Already there: a recovered attempt made it again. (The host refuses a provider's own duplicate.)
      if (state.artifacts.includes(item.artifact.id) || state.artifacts.length >= MAX_ARTIFACTS) return;
      state.artifacts = [...state.artifacts, item.artifact.id];
      return draft.emit({ type: 'artifact.created', data: item.artifact });
    case 'action':
      return openAction(draft, item.action, attempt, item.suspend);
    case 'adopt':
      return adopt(draft, item, attempt);
    case 'withdraw':
      if (state.open?.request.id === item.actionId) draft.withdrawOpen(true);
      // Taken back in the moment in which it was answered: nobody waits for that answer.
      else if (state.answers.some((answer) => answer.action.id === item.actionId)) {
        state.answers = state.answers.filter((answer) => answer.action.id !== item.actionId);
        draft.accept('withdraw', item.actionId);
      }
      return;
    case 'taken':
      return take(draft, item.actionId, attempt);
    case 'record':
      draft.addEntry(item.entry);
      // Only an answer after the last entry is ever handed out again. What this attempt still waits for is not told yet.
      state.answers = state.answers.filter((answer) => answer.attempt === attempt && answer.takenBy !== attempt);
      return draft.setResumePoint();
    case 'session':
      state.session = item.session;
      return draft.accept('session', item.session);
    case 'session_lost':
      if (item.forget) delete state.session;
      draft.accept('session_lost', item.forget);
      return draft.emit({
        type: 'provider.event',
        data: { name: 'runtime.session_lost', message: clip(item.message, MAX_MESSAGE_LENGTH) },
      });
    case 'usage':
      return use(draft, item.usage);
    case 'completed':
      return complete(draft, item);
    case 'failed':
      return draft.finish({
        type: 'run.failed',
        data: { code: item.code, message: clip(item.message, MAX_MESSAGE_LENGTH) },
      });
    default:
      return item satisfies never;
  }
}

function started(draft: Draft, attempt: number, took: string | undefined): void {
  const state = draft.state;
  const host = state.host;
  if (host === undefined || host.started) return;
  state.host = { ...host, started: true };
  draft.accept('started', attempt);
  if (!state.hasStarted) {
    state.hasStarted = true;
    draft.moveTo('running');
    const { providerVersion, capabilities } = host;
    draft.emit({
      type: 'run.started',
      data: { providerId: state.providerId, providerVersion, capabilities: { ...capabilities } },
    });
  }
  if (state.recovering) {
    state.recovering = false;
    draft.returnToResumePoint();
    draft.emit({
      type: 'provider.event',
      data: { name: 'runtime.recovered', attempt, resumedFrom: state.resumePoint.sequence },
    });
  }
  if (took !== undefined) take(draft, took, attempt);
}

function complete(draft: Draft, item: Extract<ParsedBatchItem, { kind: 'completed' }>): void {
  const state = draft.state;
  const given = item.finalOutput ?? state.text;
  const finalOutput = tailWithin(given, MAX_TEXT_BYTES);
  const cut = finalOutput.length < given.length || item.truncated || (item.finalOutput === undefined && state.textCut);
  const truncated = cut ? { truncated: true as const } : {};
  draft.withdrawOpen(false);
  draft.emit({ type: 'output.text.done', data: { text: finalOutput, ...truncated } });
  // The event below has it, so the head does too.
  if (item.usage !== undefined) draft.state.usage = { ...draft.state.usage, ...item.usage };
  draft.finish({ type: 'run.completed', data: { finalOutput, ...truncated } });
}

function use(draft: Draft, usage: Usage): void {
  if (Object.keys(usage).length === 0) return;
  draft.state.usage = { ...draft.state.usage, ...usage };
  draft.accept('usage', draft.state.usage);
}

function openAction(draft: Draft, asked: AskedAction, attempt: number, suspend: boolean): void {
  const state = draft.state;
  // A host refuses it before; here it would have to be checked against at each answer.
  if (askedProblem(asked) !== undefined) return;
  const action = withDigest(asked);
  if (Object.hasOwn(state.actions, action.id) || Object.keys(state.actions).length >= MAX_ACTIONS) return;
  if (state.open !== undefined) {
    // An id is given once, and an attempt has one question at a time.
    if (state.open.request.id === action.id || state.open.attempt === attempt) return;
    draft.withdrawOpen(true);
  }
  state.open = { request: action, attempt, suspended: suspend };
  draft.moveTo(action.kind === 'approval' ? 'awaiting_approval' : 'awaiting_input');
  draft.emit({ type: 'action.required', data: action });
  if (suspend) suspendHost(draft);
}

function adopt(draft: Draft, item: Extract<ParsedBatchItem, { kind: 'adopt' }>, attempt: number): void {
  const state = draft.state;
  const { actionId, suspend } = item;
  if (state.open?.request.id === actionId) {
    state.open = { ...state.open, attempt, suspended: suspend };
  } else if (state.answers.some((answer) => answer.action.id === actionId)) {
    state.answers = state.answers.map((answer) =>
      answer.action.id === actionId ? { ...answer, attempt, suspended: suspend } : answer,
    );
  } else {
    // Answered meanwhile, and this attempt has recorded since: that answer is not handed out any more.
    if (item.action !== undefined) openAction(draft, item.action, attempt, suspend);
    return;
  }
  draft.accept('adopt', [actionId, attempt]);
  if (suspend) suspendHost(draft);
}

/** The attempt ends with this action: its answer starts the next one. */
function suspendHost(draft: Draft): void {
  if (draft.state.host !== undefined) draft.state.host = { ...draft.state.host, suspended: true };
  draft.setResumePoint();
}

function take(draft: Draft, actionId: string, attempt: number): void {
  const state = draft.state;
  if (!state.answers.some((answer) => answer.action.id === actionId)) return;
  const answers = state.answers.map((answer) =>
    answer.action.id === actionId ? { ...answer, takenBy: attempt } : answer,
  );
  // Without recovery no later attempt can need it.
  state.answers =
    state.host?.recovery === 'journal' ? answers : answers.filter((answer) => answer.action.id !== actionId);
  draft.accept('taken', [actionId, attempt]);
}

function respond(state: LogState, input: Respond): Step {
  const verdict = judge(state, input);
  const outcome = { call: input.call, verdict };
  const open = state.open;
  const response = actionResponseSchema.safeParse(input.response).data;
  if (!verdict.accepted || open?.request.id !== input.actionId || response === undefined)
    return { ...unchanged(state), verdict: outcome };
  const draft = new Draft(state);
  const approved = open.request.kind === 'approval' ? response.approved : undefined;
  const known = approved === undefined ? {} : { approved };
  draft.endAction(input.actionId, { how: 'answered', responseId: input.responseId, ...known });
  draft.accept('answer', [input.responseId, response]);
  // What it was answered under is no part of the answer.
  const { expectedDigest, audit, ...answer } = response;
  draft.state.answers = boundHeld([
    ...state.answers,
    { action: open.request, response: answer, suspended: open.suspended, attempt: open.attempt },
  ]);
  draft.moveTo('running');
  const kept = audit === true && answer.metadata !== undefined ? { metadata: answer.metadata } : {};
  draft.emit({ type: 'action.responded', data: { actionId: input.actionId, ...known, ...kept } });
  return { ...draft.step(), verdict: outcome };
}
