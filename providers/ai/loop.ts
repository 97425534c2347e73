/**
 * The loop: ask the model, run what it called, and again, until it has answered. It decides by its state alone, which is
 * the fold of the journal, so a recovered attempt goes on as the first one would have.
 */
import type { LanguageModel, ToolSet } from 'ai';
import { HoldfastError } from '../../protocol/errors.js';
import { clip } from '../../protocol/json.js';
import { KIB } from '../../protocol/limits.js';
import { boundJson } from '../process/bound.js';
import type { Redactor } from '../process/redact.js';
import type { RunContext, RunResult } from '../provider.js';
import { CallPolicy } from './call-policy.js';
import { runTool } from './execute.js';
import { modelError } from './failure.js';
import type { Call, Turn } from './journal.js';
import type { AiConfig, AiLimits, CallRules } from './options.js';
import { permitOf } from './permit.js';
import { promptText } from './prompt.js';
import { Recorder } from './recorder.js';
import { type Thinker, think } from './think.js';
import type { RunnableTool } from './tool.js';
import type { Toolbox } from './toolbox.js';

/** Answers in a row that end for tool calls and hold none. */
const MAX_EMPTY = 3;
/** Of a tool's input in an event, and of its output there: the journal holds all of it, so history gets it once. */
const MAX_SHOWN_INPUT = 16 * KIB;
const MAX_SHOWN_OUTPUT = 2000;

export interface LoopParts {
  readonly ctx: RunContext<AiConfig>;
  readonly modelName: string;
  readonly model: LanguageModel;
  readonly sampling: Pick<Thinker, 'maxOutputTokens' | 'temperature'>;
  readonly instructions: string | undefined;
  readonly limits: AiLimits;
  readonly callRules: CallRules;
  readonly redactor: Redactor;
  /** Aborts with the run, and when its working time is over. */
  readonly signal: AbortSignal;
  /** Connects what there is; called at most once, when it is first needed. */
  openTools(): Promise<Toolbox>;
}

export class Loop {
  readonly recorder: Recorder;
  /** Tools that did not stop when they were told to. */
  readonly running: Promise<unknown>[] = [];
  readonly #parts: LoopParts;
  readonly #prompt: string;
  readonly #policy: CallPolicy;
  #tools: Promise<Toolbox> | undefined;
  #toolSet: ToolSet | undefined;

  /** Throws `VALIDATION_ERROR` for an input that is no prompt. */
  constructor(parts: LoopParts) {
    this.#parts = parts;
    this.#prompt = promptText(parts.ctx.input);
    const recorder = new Recorder(parts.ctx);
    const { session } = parts.ctx.conversation;
    this.recorder = recorder;
    this.#policy = new CallPolicy({ ...parts.callRules, model: parts.modelName, recorder, session });
  }

  /** Resolves when the model has answered, or a person is asked. Rejects with what went wrong, or why it has to stop. */
  async run(): Promise<RunResult> {
    const { signal } = this.#parts;
    for (;;) {
      signal.throwIfAborted();
      const turn = this.recorder.state.turns.at(-1);
      const open = turn?.calls.find((call) => call.result === undefined);
      if (open !== undefined) {
        const suspended = await this.#settle(open);
        if (suspended !== undefined) return suspended;
      } else if (turn !== undefined && this.#isLast(turn)) {
        return await this.#close(turn);
      } else {
        await this.#think();
      }
    }
  }

  /** The closing event, staged: what all of it took. */
  stageUsage(): void {
    const { usage, requests, turns } = this.recorder.state;
    this.recorder.event('ai.usage', { model: this.#parts.modelName, turns: turns.length, requests, ...usage });
  }

  async #think(): Promise<void> {
    const { limits, ctx } = this.#parts;
    const { state } = this.recorder;
    const { maxSteps = limits.maxSteps, maxTokens = limits.maxTokens } = ctx.config;
    const tokens = state.usage.inputTokens + state.usage.outputTokens;
    if (state.turns.length >= maxSteps) throw over(`${maxSteps} model answers (maxSteps)`);
    if (tokens >= maxTokens) throw over(`${maxTokens} tokens (maxTokens; ${tokens} are used)`);
    const tools = await this.#toolbox();
    this.#toolSet ??= await tools.forModel();
    await this.recorder.commit();
    const parts = this.#parts;
    await think({
      ...parts.sampling,
      ctx,
      model: parts.model,
      modelName: parts.modelName,
      instructions: parts.instructions,
      prompt: this.#prompt,
      tools: this.#toolSet,
      limits,
      redactor: parts.redactor,
      signal: parts.signal,
      recorder: this.recorder,
    });
    for (const call of state.turns.at(-1)?.calls ?? []) this.#showCall(call);
  }

  #showCall(call: Call): void {
    const { value, truncated } = boundJson(call.input, MAX_SHOWN_INPUT);
    this.recorder.event('ai.tool_call', {
      callId: call.callId,
      tool: call.tool,
      input: value,
      ...(truncated ? { truncated } : {}),
      ...(call.problem === undefined ? {} : { problem: call.problem }),
    });
  }

  /** Whether the execution ends with this answer. Throws for one that ends it badly. */
  #isLast(turn: Turn): boolean {
    const { modelName, redactor } = this.#parts;
    const fail = (what: string) => modelError(modelName, what, redactor);
    if (turn.finish === 'content-filter') throw fail('ended its answer for a content filter ("content-filter")');
    if (turn.calls.length > 0) return false;
    if (turn.finish === 'stop' || turn.finish === 'length') return true;
    if (turn.finish !== 'tool-calls') throw fail(`ended its answer for an unknown reason ("${turn.finish}")`);
    const empty = (one: Turn) => one.calls.length === 0 && one.finish === 'tool-calls';
    const { turns } = this.recorder.state;
    if (turns.length >= MAX_EMPTY && turns.slice(-MAX_EMPTY).every(empty))
      throw fail(`ended ${MAX_EMPTY} answers in a row for tool calls and called none`);
    return false;
  }

  async #close(turn: Turn): Promise<RunResult> {
    const { recorder } = this;
    const { usage, discarded, turns } = recorder.state;
    if (turn.finish === 'length')
      recorder.event('ai.stop', { finishReason: turn.finish, message: 'the model stopped at its limit of tokens' });
    this.stageUsage();
    await recorder.commit();
    const { inputTokens, outputTokens } = usage;
    const said = turns.flatMap(({ parts }) => parts.flatMap((part) => ('text' in part ? [part.text] : [])));
    return { usage: { inputTokens, outputTokens }, ...(discarded ? { finalOutput: said.join('') } : {}) };
  }

  /** Brings a call one step on: asks about it, or gives it its result. */
  async #settle(call: Call): Promise<RunResult | undefined> {
    const tools = await this.#toolbox();
    const tool = tools.get(call.tool);
    const { problem } = call;
    if (problem !== undefined) return this.#refuse(call, problem);
    if (tool === undefined) {
      const names = tools.names.join(', ') || 'none';
      return this.#refuse(call, `there is no tool "${call.tool}"; there is: ${names}`);
    }
    if (call.started && !tool.idempotent)
      return this.#refuse(
        call,
        'the call was interrupted while it ran: its outcome is unknown, and it was not repeated. Find out what happened before you call it again.',
      );
    if (!call.started) {
      const wrong = await tool.problem(call.input);
      if (wrong !== undefined) return this.#refuse(call, `the call was not run: ${wrong}`);
      const { ctx, redactor } = this.#parts;
      const permit = await permitOf(call, tool, { ctx, redactor, recorder: this.recorder, policy: this.#policy });
      if (permit.kind === 'refused') return this.#refuse(call, permit.why);
      if (permit.kind === 'ask') {
        await this.recorder.commit();
        return await ctx.suspend(permit.question);
      }
    }
    return this.#execute(call, tool);
  }

  async #execute(call: Call, tool: RunnableTool): Promise<undefined> {
    const { ctx, limits, redactor, signal } = this.#parts;
    if (!tool.idempotent && !call.started) this.recorder.entry({ kind: 'start', callId: call.callId });
    await this.recorder.commit();
    signal.throwIfAborted();
    const executed = await runTool({
      tool,
      call,
      info: { executionId: ctx.execution.id, conversationId: ctx.conversation.id },
      signal,
      ended: ctx.signal,
      timeoutMs: tool.timeoutMs ?? limits.toolTimeoutMs,
      maxLength: limits.maxToolResultLength,
      redactor,
    });
    if (executed.running !== undefined) this.running.push(executed.running);
    signal.throwIfAborted();
    this.#result(call, executed.output, executed.isError, executed.ms);
  }

  #refuse(call: Call, message: string): undefined {
    this.#result(call, this.#parts.redactor.text(message), true, 0);
  }

  #result(call: Call, output: string, isError: boolean, ms: number): void {
    this.recorder.event('ai.tool_result', {
      callId: call.callId,
      tool: call.tool,
      output: clip(output, MAX_SHOWN_OUTPUT),
      ...(output.length > MAX_SHOWN_OUTPUT ? { truncated: true, length: output.length } : {}),
      isError,
      ms,
    });
    this.recorder.entry({ kind: 'result', callId: call.callId, output, isError, ms });
  }

  #toolbox(): Promise<Toolbox> {
    this.#tools ??= this.#parts.openTools();
    return this.#tools;
  }
}

function over(what: string): HoldfastError {
  return new HoldfastError('PROVIDER_ERROR', `the execution was ended at its limit of ${what}`);
}
