/** Running one tool: bounded in time and size, and never an exception. */
import { clip } from '../../protocol/json.js';
import type { Redactor } from '../process/redact.js';
import { settledWithin } from '../process/wait.js';
import type { Call } from './journal.js';
import type { RunnableTool, ToolCallInfo, ToolOutput } from './tool.js';

/** Milliseconds that a tool gets to settle once its call was aborted for taking too long. */
const GRACE_MS = 5000;

export interface Execution {
  readonly tool: RunnableTool;
  readonly call: Call;
  readonly info: Omit<ToolCallInfo, 'signal' | 'callId'>;
  /** Told to stop: the run ends, or its working time is over. */
  readonly signal: AbortSignal;
  /** The run ends: aborts with `signal`, and alone means that the runtime minds what still runs. */
  readonly ended: AbortSignal;
  readonly timeoutMs: number;
  /** UTF-16 units that are kept of what it answers. */
  readonly maxLength: number;
  readonly redactor: Redactor;
}

export interface Executed extends ToolOutput {
  readonly ms: number;
  /** Set when the tool runs on although it was told to stop. */
  readonly running?: Promise<unknown>;
}

/**
 * Runs the tool and settles with what the model is told. When the run ends, it waits for the tool however long that
 * takes: code that ignores its abort is the runtime's to fence off.
 */
export async function runTool({ tool, call, info, signal, ended, ...limits }: Execution): Promise<Executed> {
  const began = performance.now();
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), limits.timeoutMs);
  const work = (async () =>
    tool.execute(call.input, {
      ...info,
      callId: call.callId,
      signal: AbortSignal.any([signal, late.signal]),
    }))();
  const settled = work.then(
    (output) => output,
    (error: unknown) => failed(error),
  );
  let giveUp: () => void = () => {};
  const expired = new Promise<undefined>((resolve) => {
    giveUp = () => void settledWithin(settled, GRACE_MS).then((done) => done || ended.aborted || resolve(undefined));
  });
  late.signal.addEventListener('abort', giveUp);
  signal.addEventListener('abort', giveUp);
  const result = await Promise.race([settled, expired]);
  clearTimeout(timer);
  signal.removeEventListener('abort', giveUp);
  const ms = Math.round(performance.now() - began);
  if (result !== undefined && !(late.signal.aborted && result.isError)) return { ...bounded(result, limits), ms };
  const output = `the tool took longer than ${limits.timeoutMs} ms and was told to stop; its outcome is unknown`;
  return { output, isError: true, ms, ...(result === undefined ? { running: settled } : {}) };
}

function failed(error: unknown): ToolOutput {
  const message = error instanceof Error ? error.message : String(error);
  return { output: message === '' ? 'the tool failed without a message' : message, isError: true };
}

function bounded({ output, isError }: ToolOutput, limits: Pick<Execution, 'maxLength' | 'redactor'>): ToolOutput {
  // Redacted before it is cut: half a secret would not be known as one.
  const text = limits.redactor.text(output);
  if (text.length <= limits.maxLength) return { output: text, isError };
  const note = `\n[cut: these are the first ${limits.maxLength} of ${text.length} characters]`;
  return { output: clip(text, limits.maxLength) + note, isError };
}
