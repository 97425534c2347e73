/** Whether a call may run: by the worker's policy, by its tool's own rule, or by what a person said. */
import type { ActionResponse } from '../../protocol/action.js';
import { clip, type Json, type JsonObject, jsonBytes } from '../../protocol/json.js';
import { KIB } from '../../protocol/limits.js';
import type { Redactor } from '../process/redact.js';
import type { ActionQuestion, RunContext } from '../provider.js';
import type { CallPolicy } from './call-policy.js';
import type { Call, CallAnswer } from './journal.js';
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
  readonly policy: CallPolicy;
}

/** Stages what it learns: that a person is asked, what the person answered, or what answered instead. */
export async function permitOf(call: Call, tool: RunnableTool, asking: Asking): Promise<Permit> {
  const { callId } = call;
  const { recorder } = asking;
  if (call.answer === undefined) {
    // A schema that fails the second time tells nothing, which no rule allows.
    const parsed = await tool.parsed(call.input).catch(() => undefined);
    const verdict = await asking.policy.verdict(call, parsed);
    // A person who was asked is heard, whatever a newer worker would say to the same input: unless it says no.
    if (verdict?.answer === 'deny' || (verdict?.answer === 'allow' && !call.asked)) {
      // A rule allows what nobody was to be asked about: that is no answer, and needs no record.
      const isIdle = verdict.answer === 'allow' && 'rule' in verdict.why;
      if (isIdle && !(await needsApproval(call, tool, asking))) return { kind: 'granted' };
      const answer = asking.policy.answered(call, verdict);
      recorder.entry({ kind: 'answer', callId, ...answer });
    } else {
      const isAsked = call.asked || verdict?.answer === 'ask';
      if (!isAsked && !(await needsApproval(call, tool, asking))) return { kind: 'granted' };
      const response = call.asked ? asking.ctx.resume?.response : undefined;
      if (response === undefined) return ask(call, tool, recorder);
      recorder.entry({ kind: 'answer', callId, ...heard(call, response, asking) });
    }
  }
  return call.answer?.approved ? { kind: 'granted' } : { kind: 'refused', why: whyNot(call.answer) };
}

function ask(call: Call, tool: RunnableTool, recorder: Recorder): Permit {
  const bytes = jsonBytes(call.input);
  if (bytes > MAX_APPROVED_INPUT) return { kind: 'refused', why: tooLong(bytes) };
  if (!call.asked) recorder.entry({ kind: 'ask', callId: call.callId });
  return { kind: 'ask', question: questionOf(call, tool) };
}

function heard(call: Call, response: ActionResponse, { policy, redactor }: Asking): CallAnswer {
  const said = reasonIn(response.value, response.metadata);
  const stands = policy.learn(call, response);
  return {
    approved: response.approved === true,
    ...(said === undefined ? {} : { said: redactor.text(said) }),
    ...(stands === undefined ? {} : { stands }),
  };
}

function whyNot({ rule, said }: Partial<CallAnswer> = {}): string {
  if (rule !== undefined) return `a rule of this worker ("${rule}") does not allow this call, so it was not run.`;
  return `a person did not approve this call, so it was not run.${said === undefined ? '' : ` They said: ${said}`}`;
}

async function needsApproval(call: Call, tool: RunnableTool, { ctx, redactor }: Asking): Promise<boolean> {
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
