/** Whether an answer counts. The reducer checks every one, whoever sent it (DESIGN §1). */
import { type ActionRequest, actionResponseSchema, responseProblem } from '../action.js';
import { ID_PATTERN } from '../ids.js';
import { canonicalJson, jsonBytes } from '../json.js';
import { isTerminal } from '../lifecycle.js';
import { MAX_RESPONSE_BYTES } from '../limits.js';
import type { Respond } from './inputs.js';
import type { LogState, Verdict } from './state.js';

/**
 * What comes of `input` in `state`. Repeating the response id that won gives its verdict again; any other id is
 * judged anew, so of different answers to one action exactly one wins (invariant 9).
 */
export function judge(state: LogState, input: Respond): Verdict {
  const { actionId, response } = input;
  const open = state.open?.request;
  if (open?.id === actionId) {
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
  a: Pick<ActionRequest, 'kind' | 'title' | 'payload'>,
  b: Pick<ActionRequest, 'kind' | 'title' | 'payload'>,
): boolean {
  return a.kind === b.kind && a.title === b.title && canonicalJson(a.payload) === canonicalJson(b.payload);
}
