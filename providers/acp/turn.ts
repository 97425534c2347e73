/** One prompt, from the request to what its stop reason means. */
import { type ContentBlock, methods } from '@agentclientprotocol/sdk';
import type { Usage } from '../../protocol/execution.js';
import type { TurnClock } from '../process/clock.js';
import { settledWithin } from '../process/wait.js';
import { AgentFailure } from './failure.js';
import { isObject } from './message.js';
import type { Requester } from './session.js';

export interface TurnOptions {
  readonly sessionId: string;
  readonly prompt: ContentBlock[];
  readonly clock: TurnClock;
  readonly signal: AbortSignal;
  readonly cancelGraceMs: number;
  /** Answers every permission request as cancelled, from now on. */
  closePermissions(): void;
}

export interface TurnAgent extends Requester {
  notify(method: string, params: unknown): Promise<void>;
}

/**
 * Sends the prompt and waits for the turn's end. When the signal aborts or the clock expires, the agent is asked to
 * cancel and gets `cancelGraceMs` to do so. Resolves with the response, or undefined when it was cancelled so. Rejects
 * with an `AgentFailure`.
 */
export async function promptTurn(agent: TurnAgent, options: TurnOptions): Promise<unknown> {
  const { sessionId, prompt, clock, signal } = options;
  clock.start();
  const answer = agent.request(methods.agent.session.prompt, { sessionId, prompt });
  answer.catch(() => {});
  const aborted = new Promise<'aborted'>((resolve) => {
    if (signal.aborted) resolve('aborted');
    else signal.addEventListener('abort', () => resolve('aborted'), { once: true });
  });
  try {
    const first = await Promise.race([
      answer.then(() => 'answered' as const),
      clock.expired.then(() => 'expired' as const),
      aborted,
    ]);
    if (first === 'answered') return await answer;
    // Agents differ: some wait for the answers to their open requests before they end the turn, so both are sent.
    void agent.notify(methods.agent.session.cancel, { sessionId });
    options.closePermissions();
    await settledWithin(answer, options.cancelGraceMs);
    if (first === 'expired')
      throw new AgentFailure(`took longer than ${clock.limitMs} ms for one turn (turnTimeoutMs)`);
    return undefined;
  } finally {
    clock.stop();
    options.closePermissions();
  }
}

/** What to make of a turn that ended. */
export interface TurnEnd {
  readonly stopReason: string;
  readonly usage: Usage;
  /** Worth an event: the turn succeeded, but not in the plain way. */
  readonly remark?: string;
}

/**
 * Reads the response of `session/prompt`. `end_turn` succeeds; so do the two limits, visibly, and a `cancelled` that
 * follows a person's no. Throws an `AgentFailure` for everything else.
 */
export function turnEnd(response: unknown, rejectedLast: boolean): TurnEnd {
  const stopReason = isObject(response) ? response.stopReason : undefined;
  const usage = usageOf(response);
  switch (stopReason) {
    case 'end_turn':
      return { stopReason, usage };
    case 'max_tokens':
      return { stopReason, usage, remark: 'the agent stopped at its limit of tokens' };
    case 'max_turn_requests':
      return { stopReason, usage, remark: 'the agent stopped at its limit of model requests in one turn' };
    case 'refusal':
      throw new AgentFailure('refused to go on (stop reason "refusal")');
    case 'cancelled':
      if (rejectedLast)
        return { stopReason, usage, remark: 'the agent ended the turn since a permission was rejected' };
      throw new AgentFailure('ended the turn as "cancelled" although nobody had cancelled it');
    default:
      throw new AgentFailure(
        `ended the turn with an unknown stop reason: ${JSON.stringify(stopReason)?.slice(0, 200)}`,
      );
  }
}

export function usageOf(response: unknown): Usage {
  const usage = isObject(response) && isObject(response.usage) ? response.usage : {};
  const { inputTokens, outputTokens } = usage;
  return {
    ...(isCount(inputTokens) ? { inputTokens } : {}),
    ...(isCount(outputTokens) ? { outputTokens } : {}),
  };
}

function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}
