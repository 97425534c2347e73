/** What the workflow itself learned or decided, as the reducer takes it; and the one start of every cancel. */
import { EXPIRED_RESPONSE } from '../action.js';
import { clip } from '../json.js';
import { isTerminal } from '../lifecycle.js';
import {
  MAX_MESSAGE_LENGTH,
  MAX_RECOVERIES,
  MAX_RECOVERIES_WITHOUT_PROGRESS,
  MAX_UNTAKEN_ATTEMPTS,
} from '../limits.js';
import { boundHeld } from './answers.js';
import { Draft, unchanged } from './draft.js';
import type { Mark, Settled } from './inputs.js';
import type { LogState, Step } from './state.js';

export function reduceMark(state: LogState, mark: Mark): Step {
  if (isTerminal(state.state)) return unchanged(state);
  switch (mark.kind) {
    case 'attempt': {
      const draft = new Draft(state);
      draft.state.attempt = mark.attempt;
      delete draft.state.host;
      delete draft.state.attemptLost;
      draft.accept('attempt', mark.attempt);
      return draft.step();
    }
    case 'settled':
      return mark.attempt === state.attempt ? settled(state, mark.result) : unchanged(state);
    case 'cancel_requested':
      return cancel(state, undefined);
    case 'timeout': {
      if (state.ending !== undefined) return unchanged(state);
      const draft = new Draft(state);
      draft.withdrawOpen(false);
      draft.state.ending = { by: 'timeout' };
      draft.accept('ending', draft.state.ending);
      return draft.step();
    }
    case 'expired':
      return expire(state, mark.actionId);
    case 'stopped': {
      if (state.ending === undefined) return unchanged(state);
      const draft = new Draft(state);
      if (state.ending.by === 'timeout') {
        const { expired } = state.ending;
        const message =
          expired === undefined
            ? `not finished within ${state.request.timeoutSeconds} s of its creation`
            : `nobody answered action ${expired} in time`;
        draft.finish({ type: 'run.failed', data: { code: 'EXECUTION_TIMEOUT', message } });
      } else {
        const reason = state.ending.reason === undefined ? {} : { reason: state.ending.reason };
        draft.finish({ type: 'run.cancelled', data: { ...reason, confirmation: mark.confirmation } });
      }
      return draft.step();
    }
    case 'rollover':
      return unchanged(state);
    default:
      return mark satisfies never;
  }
}

/** Nobody answered in time: the same as a no, or the end. An answer that the log took before is not touched. */
function expire(state: LogState, actionId: string): Step {
  const open = state.open;
  if (state.ending !== undefined || open === undefined || open.request.id !== actionId) return unchanged(state);
  const draft = new Draft(state);
  const { kind, onExpiry } = open.request;
  const known = kind === 'approval' ? { approved: false } : {};
  draft.endAction(actionId, { how: 'expired', ...known });
  draft.moveTo('running');
  draft.emit({ type: 'action.responded', data: { actionId, ...known, expired: true } });
  if (onExpiry === 'fail') {
    draft.state.ending = { by: 'timeout', expired: actionId };
    draft.accept('ending', draft.state.ending);
  } else {
    const { request: action, suspended, attempt } = open;
    const response = { ...EXPIRED_RESPONSE };
    draft.state.answers = boundHeld([...state.answers, { action, response, suspended, attempt }]);
  }
  return draft.step();
}

function settled(state: LogState, result: Settled): Step {
  // What is being stopped ends by `stopped` alone. A suspension is decided by the action that it waits for.
  if (state.ending !== undefined || state.host?.suspended || state.attemptLost) return unchanged(state);
  const draft = new Draft(state);
  if (result.how === 'lost') lose(draft, result);
  else {
    const message = clip(result.message, MAX_MESSAGE_LENGTH);
    draft.finish({ type: 'run.failed', data: { code: result.code, message } });
  }
  return draft.step();
}

/** Tried again within its bounds, or the end (DESIGN §3, Crash recovery). */
function lose(draft: Draft, { message: cause, orderly, untaken }: Extract<Settled, { how: 'lost' }>): void {
  const { host, recoveries } = draft.state;
  const recoverable = !host?.started || host.recovery === 'journal';
  const counted = orderly || untaken ? 0 : 1;
  const total = recoveries.total + counted;
  const sinceEntry = recoveries.sinceEntry + counted;
  const inARow = untaken ? (draft.state.untaken ?? 0) + 1 : 0;
  const giveUp = (why: string): void => {
    const message = clip(`${cause}${why}`, MAX_MESSAGE_LENGTH);
    draft.finish({ type: 'run.failed', data: { code: 'PROVIDER_LOST', message } });
  };
  if (!recoverable) return giveUp('');
  if (inARow >= MAX_UNTAKEN_ATTEMPTS) return giveUp(` (given up after ${inARow} attempts that no worker took)`);
  if (total > MAX_RECOVERIES || sinceEntry > MAX_RECOVERIES_WITHOUT_PROGRESS)
    return giveUp(` (given up after ${recoveries.total} recoveries)`);
  draft.state.recoveries = { total, sinceEntry };
  if (untaken) draft.state.untaken = inARow;
  else delete draft.state.untaken;
  if (host?.started) draft.state.recovering = true;
  draft.state.attemptLost = true;
  delete draft.state.host;
  draft.accept('lost', [draft.state.attempt, total]);
}

/** Whichever of cancel and timeout came first decides; from here on the only end is `cancelled`. */
export function cancel(state: LogState, reason: string | undefined): Step {
  if (isTerminal(state.state) || state.ending !== undefined) return unchanged(state);
  const draft = new Draft(state);
  const given = reason === undefined || reason === '' ? {} : { reason: clip(reason, MAX_MESSAGE_LENGTH) };
  draft.withdrawOpen(false);
  draft.moveTo('cancelling');
  draft.state.ending = { by: 'cancel', ...given };
  draft.accept('ending', draft.state.ending);
  return draft.step();
}
