/** Whether an answer counts. The reducer checks every one, whoever sent it (DESIGN §1). */
import { type ActionRequest, type AskedAction, actionResponseSchema, responseProblem } from '../action.js';
import { ID_PATTERN } from '../ids.js';
import { canonicalJson, jsonBytes } from '../json.js';
import { isTerminal } from '../lifecycle.js';
import { MAX_ACTION_BYTES, MAX_RESPONSE_BYTES } from '../limits.js';
import type { Respond } from './inputs.js';
import type { HeldAnswer, LogState, Verdict } from './state.js';

/** Answers that an attempt may still need are kept up to here; the oldest go first, the newest always fits. */
const MAX_HELD_ANSWER_BYTES = MAX_ACTION_BYTES + MAX_RESPONSE_BYTES;

/**
 * What comes of `input` in `state`. Repeating the response id that won gives its verdict again; any other id is
 * judged anew, so of different answers to one action exactly one wins (invariant 9).
 */
export function judge(state: LogState, input: Respond): Verdict {
  const { actionId, response } = input;
  const open = state.open?.request;
  if (open?.id === actionId) {
    const { expectedDigest } = actionResponseSchema.safeParse(response).data ?? {};
    if (expectedDigest !== undefined && expectedDigest !== open.digest)
      return {
        accepted: false,
        code: 'INVALID_STATE',
        message: `action ${actionId} has the digest ${open.digest}: it is not what "expectedDigest" was taken of`,
      };
    const problem = ID_PATTERN.test(input.responseId) ? answerProblem(open, response) : '"responseId" is not an id';
    return problem === undefined
      ? { accepted: true }
      : { accepted: false, code: 'VALIDATION_ERROR', message: `${problem}; the action stays open` };
  }
  const ended = Object.hasOwn(state.actions, actionId) ? state.actions[actionId] : undefined;
  if (ended === undefined)
    return { accepted: false, code: 'ACTION_NOT_FOUND', message: `no action ${actionId} in ${state.executionId}` };
  if (ended.how === 'answered' && ended.responseId === input.responseId) return { accepted: true };
  if (ended.how === 'withdrawn' && (isTerminal(state.state) || state.state === 'cancelling'))
    return {
      accepted: false,
      code: 'INVALID_STATE',
      message: `action ${actionId} was withdrawn: the execution is ${state.state}`,
      how: ended.how,
    };
  return {
    accepted: false,
    code: 'ACTION_ALREADY_RESOLVED',
    message: `action ${actionId} was ${ended.how} already`,
    how: ended.how,
    ...(ended.approved === undefined ? {} : { approved: ended.approved }),
  };
}

function answerProblem(open: ActionRequest, response: unknown): string | undefined {
  const parsed = actionResponseSchema.safeParse(response);
  if (!parsed.success) {
    const { path, message } = parsed.error.issues[0] ?? { path: [], message: 'not an answer' };
    return path.length === 0 ? message : `"${path.join('.')}": ${message}`;
  }
  const bytes = jsonBytes(parsed.data);
  return bytes > MAX_RESPONSE_BYTES
    ? `the answer takes ${bytes} bytes; at most ${MAX_RESPONSE_BYTES}`
    : responseProblem(open, parsed.data);
}

/** Whether two questions are the same: kind, title and payload, whatever the order of keys. */
export function sameQuestion(
  a: Pick<AskedAction, 'kind' | 'title' | 'payload'>,
  b: Pick<AskedAction, 'kind' | 'title' | 'payload'>,
): boolean {
  return a.kind === b.kind && a.title === b.title && canonicalJson(a.payload) === canonicalJson(b.payload);
}

/** The newest answers that may still be needed, within their bound. */
export function boundHeld(answers: readonly HeldAnswer[]): readonly HeldAnswer[] {
  let from = answers.length - 1;
  let bytes = jsonBytes(answers[from]);
  while (from > 0) {
    bytes += jsonBytes(answers[from - 1]);
    if (bytes > MAX_HELD_ANSWER_BYTES) break;
    from--;
  }
  return answers.slice(from);
}
