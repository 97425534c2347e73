/**
 * The calls of an answer, made fit to be run and told again: every id once in an execution, arguments that are an
 * object, names that an API takes. What is not fit stays as a call with a problem, and gets one error for a result.
 */
import { clip, type JsonObject, jsonProblem } from '../../protocol/json.js';
import { boundJson } from '../process/bound.js';
import type { Redactor } from '../process/redact.js';
import type { ModelAnswer, RawCall } from './call.js';
import type { Part } from './journal.js';

/** OpenAI takes no longer ids, Anthropic no other characters. */
const FIT_ID = /^[a-zA-Z0-9_-]{1,40}$/;
/** Of broken arguments, in the error that the model gets. */
const MAX_QUOTED = 300;

/** The parts of an answer as they are journaled. `taken` holds the ids of earlier calls and gets those of these. */
export function fitParts(answer: ModelAnswer, turn: number, taken: Set<string>, redactor: Redactor): Part[] {
  // Metadata may repeat what was said; it is the API's own and must come back as it was, so only secrets are taken out.
  const clean = (options: JsonObject) =>
    redactor.data(boundJson(options, Number.POSITIVE_INFINITY).value) as JsonObject;
  return answer.parts.map((part, index): Part => {
    const options = part.options === undefined ? {} : { options: clean(part.options) };
    if ('text' in part) return { text: part.text, ...options };
    if ('thought' in part) return { thought: part.thought, ...options };
    const callId = uniqueId(part.id, turn, index, taken);
    taken.add(callId);
    return { callId, ...fitCall(part, answer.finish, redactor), ...options };
  });
}

function uniqueId(given: string, turn: number, index: number, taken: ReadonlySet<string>): string {
  if (FIT_ID.test(given) && !taken.has(given)) return given;
  let id = `call_${turn}_${index}`;
  while (taken.has(id)) id += '_';
  return id;
}

function fitCall(call: RawCall, finish: string, redactor: Redactor) {
  const tool = call.tool.replace(/[^a-zA-Z0-9_-]/g, '_').slice(0, 64) || 'unnamed';
  const problem = finish === 'length' ? 'the answer was cut at its limit of tokens' : inputProblem(call.input);
  if (problem === undefined) return { tool, input: redactor.data(call.input as JsonObject) as JsonObject };
  const written = typeof call.input === 'string' ? call.input : JSON.stringify(call.input);
  const quoted = clip(redactor.text(written ?? ''), MAX_QUOTED);
  return { tool, input: {}, problem: `the call was not run: ${problem}. Its arguments were: ${quoted}` };
}

function inputProblem(input: unknown): string | undefined {
  if (typeof input === 'string') return 'its arguments are no complete JSON object';
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    return 'its arguments are JSON, but no object';
  return jsonProblem(input);
}
