/**
 * Answering an action. The answer is a signal; what came of it is learned by folding the log until it shows this very
 * call (DESIGN §3, Answers). Never a false *accepted* or *refused*.
 */
import { isEnded, type RunFold } from '../log/fold.js';
import { GRPC, grpcCode, isMissingNamespace } from '../log/grpc.js';
import { HoldfastError } from '../protocol/errors.js';
import type { Execution } from '../protocol/execution.js';
import { judge } from '../protocol/log/answers.js';
import type { Respond } from '../protocol/log/inputs.js';
import type { Verdict } from '../protocol/log/state.js';
import type { LogTimes } from '../workflows/messages.js';
import type { Backend } from './backend.js';
import { clientClosed, translate } from './translate.js';

interface Judged {
  readonly verdict: Verdict;
  /** As it was with the verdict. */
  readonly execution: Execution;
  readonly times: LogTimes;
}

function judged(fold: Pick<RunFold, 'times' | 'execution'>, verdict: Verdict): Judged {
  return { verdict, times: fold.times, execution: fold.execution() };
}

export async function respond(backend: Backend, id: string, input: Respond, timeoutMs: number): Promise<Execution> {
  if (backend.closed) throw clientClosed();
  const unknown = (cause: unknown): HoldfastError =>
    new HoldfastError('RUNTIME_UNAVAILABLE', 'the outcome of this answer is unknown; repeat it with its responseId', {
      details: { outcome: 'unknown', responseId: input.responseId },
      cause,
    });
  const closed = await send(backend, id, input, timeoutMs).catch((error) => {
    // What the server refused was never applied; of anything else nobody knows.
    throw error instanceof HoldfastError || isRefused(error) ? translate(error, `execution ${id}`) : unknown(error);
  });
  const { verdict, times, execution } = closed ?? (await verdictOf(backend, id, input, timeoutMs, unknown));
  if (!verdict.accepted) throw refusal(verdict, input.actionId, times);
  return execution;
}

/** Sends the answer; when the execution is over already, judges it by the log as it stands. */
async function send(backend: Backend, id: string, input: Respond, timeoutMs: number): Promise<Judged | undefined> {
  const workflowId = backend.workflowId(id);
  const handle = backend.temporal.workflow.getHandle(workflowId);
  try {
    await backend.temporal.withDeadline(Date.now() + timeoutMs, () => handle.signal('respond', input));
    return undefined;
  } catch (error) {
    if (grpcCode(error) !== GRPC.NOT_FOUND || isMissingNamespace(error)) throw error;
    const { fold } = await backend.call(`execution ${id}`, () => backend.reader.foldRun(workflowId));
    return judged(fold, judge(fold.state, input));
  }
}

async function verdictOf(
  backend: Backend,
  id: string,
  input: Respond,
  timeoutMs: number,
  unknown: (cause: unknown) => HoldfastError,
): Promise<Judged> {
  try {
    return await backend.follow(id, { timeoutMs }, (follower) => {
      const fold = follower.current;
      if (fold === undefined) return undefined;
      const verdict = follower.verdicts.get(input.call ?? '');
      if (verdict !== undefined) return judged(fold, verdict);
      // Its verdict may have been read before we joined, or stand in a run before this one. An action that has ended
      // never opens again, so what it ended with holds; as long as it is open, nothing is known.
      return isEnded(fold.state) || Object.hasOwn(fold.state.actions, input.actionId)
        ? judged(fold, judge(fold.state, input))
        : undefined;
    });
  } catch (error) {
    throw unknown(error);
  }
}

/** Whether the server said that it did not take a call. */
function isRefused(error: unknown): boolean {
  const code = grpcCode(error);
  return (
    code === GRPC.NOT_FOUND ||
    code === GRPC.INVALID_ARGUMENT ||
    code === GRPC.PERMISSION_DENIED ||
    code === GRPC.UNAUTHENTICATED
  );
}

function refusal(verdict: Extract<Verdict, { accepted: false }>, actionId: string, times: LogTimes): HoldfastError {
  const { code, message, how, approved } = verdict;
  const resolvedAt = Object.hasOwn(times.actions, actionId) ? times.actions[actionId] : undefined;
  const details = {
    ...(how === undefined ? {} : { how }),
    ...(approved === undefined ? {} : { approved }),
    ...(resolvedAt === undefined ? {} : { resolvedAt }),
  };
  return new HoldfastError(code, message, Object.keys(details).length === 0 ? {} : { details });
}
