/** Whether a call may run: by its tool's own rule, or by what a person said. */
import { clip, type Json, type JsonObject, jsonBytes } from '../../protocol/json.js';
import { KIB } from '../../protocol/limits.js';
import type { Redactor } from '../process/redact.js';
import type { ActionQuestion, RunContext } from '../provider.js';
import type { Call } from './journal.js';
import type { Recorder } from './recorder.js';
import type { RunnableTool } from './tool.js';

/** An approval shows the whole input, or is not asked for. */
const MAX_APPROVED_INPUT = 48 * KIB;
const MAX_SAID = 2000;

export type Permit =
  | { readonly kind: 'granted' }
  | { readonly kind: 'refused'; readonly why: string }
  /** A person decides: the attempt ends with this question. */
  | { readonly kind: 'ask'; readonly question: ActionQuestion };

interface Asking {
  readonly ctx: Pick<RunContext, 'resume' | 'log'>;
  readonly redactor: Redactor;
  readonly recorder: Recorder;
}

/** Stages what it learns: that a person is asked, and what the person answered. */
export async function permitOf(call: Call, tool: RunnableTool, { ctx, redactor, recorder }: Asking): Promise<Permit> {
  const { callId } = call;
  if (call.answer === undefined) {
    // A person who was asked is heard, whatever a newer worker would say to the same input.
    if (!call.asked && !(await needsApproval(call, tool, ctx, redactor))) return { kind: 'granted' };
    const response = call.asked ? ctx.resume?.response : undefined;
    if (response === undefined) {
      const bytes = jsonBytes(call.input);
      if (bytes > MAX_APPROVED_INPUT) return { kind: 'refused', why: tooLong(bytes) };
      if (!call.asked) recorder.entry({ kind: 'ask', callId });
      return { kind: 'ask', question: questionOf(call, tool) };
    }
    const said = reasonIn(response.value, response.metadata);
    const reason = said === undefined ? {} : { said: redactor.text(said) };
    recorder.entry({ kind: 'answer', callId, approved: response.approved === true, ...reason });
  }
  if (call.answer?.approved) return { kind: 'granted' };
  const said = call.answer?.said === undefined ? '' : ` They said: ${call.answer.said}`;
  return { kind: 'refused', why: `a person did not approve this call, so it was not run.${said}` };
}

async function needsApproval(call: Call, tool: RunnableTool, ctx: Asking['ctx'], redactor: Redactor): Promise<boolean> {
  try {
    return await tool.needsApproval(call.input);
  } catch (error) {
    const details = { tool: call.tool, error: redactor.text(String(error)) };
    ctx.log('warn', 'needsApproval failed, so a person is asked', details);
    return true;
  }
}

function tooLong(bytes: number): string {
  return `the call was not run: it needs a person's approval, and arguments of ${bytes} bytes are too long to show (at most ${MAX_APPROVED_INPUT})`;
}

function questionOf(call: Call, tool: RunnableTool): ActionQuestion {
  const description = clip(tool.description, 2000);
  return {
    kind: 'approval',
    title: `Run the tool "${call.tool}"?`,
    ...(description === '' ? {} : { description }),
    payload: { callId: call.callId, tool: call.tool, input: call.input },
  };
}

/** What a person said beside yes or no, for the model: a text as the value, or `reason` in it; or that none answered. */
function reasonIn(value: Json | undefined, metadata: JsonObject | undefined): string | undefined {
  if (metadata?.expired === true) return 'nobody answered in time';
  const said = typeof value === 'object' && value !== null && !Array.isArray(value) ? value.reason : value;
  return typeof said === 'string' && said !== '' ? said.slice(0, MAX_SAID) : undefined;
}
