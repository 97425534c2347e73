/**
 * The end that every reader gives to a run which closed without a terminal event (terminated, or timed out by the
 * server): always the same, sequence last + 1 (DESIGN §3, Operators).
 */
import { isTerminal } from '../lifecycle.js';
import { Draft } from './draft.js';
import type { LogState, Step } from './state.js';

export type Closing = 'completed' | 'failed' | 'canceled' | 'terminated' | 'timed_out';

const WORDS: Record<Closing, string> = {
  completed: 'its workflow completed without an end of its log',
  failed: 'its workflow failed',
  canceled: 'its workflow was canceled',
  terminated: 'its workflow was terminated',
  timed_out: 'its workflow timed out',
};

/** The synthetic end after `closing`; no events when the log has its end already. */
export function seal(state: LogState, closing: Closing): Step {
  if (isTerminal(state.state)) return { state, events: [], entries: [] };
  const draft = new Draft(state);
  if (state.state === 'cancelling') {
    const reason = state.ending?.by === 'cancel' && state.ending.reason !== undefined ? state.ending.reason : undefined;
    draft.finish({
      type: 'run.cancelled',
      data: { ...(reason === undefined ? {} : { reason }), confirmation: 'lost' },
    });
  } else {
    draft.finish({ type: 'run.failed', data: { code: 'TERMINATED', message: WORDS[closing] } });
  }
  return draft.step();
}
