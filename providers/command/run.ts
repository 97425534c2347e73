/** One run: start the command, give it the prompt, take what it says, and the end of everything that was started. */
import { isAbsolute } from 'node:path';
import type { Usage } from '../../protocol/execution.js';
import { clip } from '../../protocol/json.js';
import { promptText } from '../ai/prompt.js';
import { rulesOf } from '../policy/rules.js';
import { TurnClock } from '../process/clock.js';
import { secretValues } from '../process/environment.js';
import { describeExit } from '../process/exit.js';
import { Redactor } from '../process/redact.js';
import { type RunningProcess, startProcess } from '../process/spawn.js';
import { cleanText } from '../process/stderr-tail.js';
import { settledWithin, unlessAborted } from '../process/wait.js';
import type { RunContext, RunResult } from '../provider.js';
import type { OpenWorkspace, Workspaces } from '../workspace/workspaces.js';
import { Approvals } from './approvals.js';
import type { CommandEvent } from './events.js';
import { asHoldfastError, CommandFailure } from './failure.js';
import { CommandMemory } from './memory.js';
import { type CommandConfig, choose, type Launch, type ResolvedOptions } from './options.js';
import { Output } from './output.js';
import { openPlace } from './place.js';
import { Questions } from './questions.js';
import { type Reading, readOutput } from './read.js';

/** Lines of noise that are shown in the log, each with its beginning. */
const NOISE_SAMPLES = 3;
/** Milliseconds of silence on the output after the exit: somebody else holds the pipe. */
const QUIET_MS = 500;

/** See `commandProvider`. Settles when nothing of the command is left. */
export async function runCommand(
  ctx: RunContext<CommandConfig>,
  options: ResolvedOptions,
  workspaces: Workspaces,
): Promise<RunResult> {
  const prompt = promptText(ctx.input);
  const choice = choose(options, ctx.config);
  const memory = new CommandMemory(ctx.conversation.session);
  const space = await openPlace(ctx, workspaces, choice, memory);
  if (ctx.signal.aborted) return {};
  const { name, settings, timeoutMs } = choice;
  const redactor = new Redactor([...secretValues(settings), ...(settings.secrets ?? [])]);
  const launch: Launch = { name, settings, timeoutMs, cwd: space.cwd };
  return await new CommandRun(ctx, options, launch, space, redactor, memory, workspaces.areKept).run(prompt);
}

class CommandRun {
  readonly #output: Output;
  readonly #clock: TurnClock;
  /** Aborts, with the error, when the run cannot go on. */
  readonly #broken = new AbortController();
  readonly #noise = { lines: 0, bytes: 0 };
  #result: { text?: string | undefined; usage?: Usage | undefined } | undefined;
  #resulted: () => void = () => {};
  readonly #hasResult = new Promise<void>((resolve) => {
    this.#resulted = resolve;
  });

  constructor(
    private readonly ctx: RunContext<CommandConfig>,
    private readonly options: ResolvedOptions,
    private readonly launch: Launch,
    private readonly space: OpenWorkspace,
    private readonly redactor: Redactor,
    private readonly memory: CommandMemory,
    /** Its executions of one conversation run one after the other, and hand on what is remembered. */
    private readonly takesTurns: boolean,
  ) {
    this.#output = new Output(ctx, redactor);
    this.#clock = new TurnClock(launch.timeoutMs);
  }

  async run(prompt: string): Promise<RunResult> {
    const { ctx, launch, redactor } = this;
    const child = this.#start();
    const questions = new Questions({
      ctx,
      output: this.#output,
      redactor,
      approvals: this.#approvals(),
      send: (line) => void child.write(`${JSON.stringify(line)}\n`),
      onWaiting: (waiting) => this.#clock.pause(waiting),
      onFailure: (error) => this.#broken.abort(error),
    });
    const reading = readOutput(child.stdout, launch.settings.output, this.options, {
      text: (text) => this.#output.text(text),
      event: (event) => this.#take(event, questions),
      noise: (sample, why, bytes) => this.#ignore(sample, why, bytes),
    });
    reading.done.catch((error: unknown) => this.#broken.abort(error));
    this.#clock.start();
    this.space.watch((error) => this.#broken.abort(error));
    void this.#giveInput(child, prompt);
    const failure = await this.#end(child, reading).catch((error: unknown) => error);
    this.#clock.stop();
    questions.close();
    const report = await child.stop();
    // What it says until its output ends still counts; what holds the pipe on and cannot be ended does not.
    if (!(await reading.drained(QUIET_MS))) child.stdout.destroy();
    const last = await reading.done.then(() => this.#output.flush()).catch((error: unknown) => error);
    const left = await this.space.finish().catch((error: unknown) => error);
    if (this.#noise.lines > 0)
      ctx.log('warn', "lines on the command's standard output were no events", { ...this.#noise });
    if (report.left.length > 0) ctx.log('error', 'processes of the command could not be ended', { pids: report.left });
    if (ctx.signal.aborted) return { forced: report.forced };
    const error = failure ?? last ?? left;
    if (error !== undefined) throw asHoldfastError(error, launch.name, child.stderr(), redactor);
    const { text, usage } = this.#result ?? {};
    return {
      ...(text === undefined ? {} : { finalOutput: redactor.text(text) }),
      ...(usage === undefined ? {} : { usage }),
    };
  }

  #approvals(): Approvals {
    const { ctx, launch, memory, options } = this;
    return new Approvals({
      program: launch.name,
      cwd: launch.cwd,
      rules: rulesOf(options.policy),
      // Without turns there is no conversation to remember an answer for.
      scopes: options.scopes.filter((scope) => scope === 'execution' || this.takesTurns),
      memory,
      keep: () => memory.handOn(ctx),
      note: (name, data) => this.#output.note(name, data),
    });
  }

  #start(): RunningProcess {
    const { command, args, env, passEnv, secretEnv } = this.launch.settings;
    const ids = {
      HOLDFAST_EXECUTION_ID: this.ctx.execution.id,
      HOLDFAST_CONVERSATION_ID: this.ctx.conversation.id,
    };
    return startProcess({
      command,
      cwd: this.launch.cwd,
      env: { ...ids, ...env },
      ...(args === undefined ? {} : { args }),
      ...(passEnv === undefined ? {} : { passEnv }),
      ...(secretEnv === undefined ? {} : { secretEnv }),
    });
  }

  async #giveInput(child: RunningProcess, prompt: string): Promise<void> {
    const { ctx, launch } = this;
    if (launch.settings.input === 'text') {
      await child.write(prompt);
      return child.closeInput();
    }
    const { id: executionId, attempt } = ctx.execution;
    const line = { type: 'prompt', text: prompt, executionId, attempt, conversationId: ctx.conversation.id };
    await child.write(`${JSON.stringify(line)}\n`);
  }

  /** Resolves when the command is done. Rejects with what went wrong; resolves at once when it is to stop. */
  async #end(child: RunningProcess, reading: Reading): Promise<void> {
    const { exitGraceMs } = this.options;
    const stopping = AbortSignal.any([this.ctx.signal, this.#broken.signal]);
    const first = await unlessAborted(
      Promise.race([
        child.exited.then(() => 'exit' as const),
        reading.done.then(() => 'output' as const),
        this.#hasResult.then(() => 'result' as const),
        this.#clock.expired.then(() => 'expired' as const),
      ]),
      stopping,
    );
    if (this.#broken.signal.aborted) throw this.#broken.signal.reason;
    if (first === undefined) return;
    if (first === 'expired') throw new CommandFailure(`took longer than ${this.#clock.limitMs} ms (timeoutMs)`);
    if (first !== 'exit') {
      child.closeInput();
      const exited = settledWithin(child.exited, exitGraceMs);
      if (!(await unlessAborted(exited, stopping))) {
        if (stopping.aborted || this.#result !== undefined) return;
        throw new CommandFailure(`closed its standard output and ran on for ${exitGraceMs} ms (exitGraceMs)`);
      }
    }
    const exit = await child.exited;
    if (exit.kind === 'code' && exit.code === 0) return;
    const { command, env, passEnv, secretEnv } = this.launch.settings;
    const hasPath = env?.PATH !== undefined || secretEnv?.PATH !== undefined || passEnv?.includes('PATH') === true;
    const lost = exit.kind === 'not_started' && !isAbsolute(command) && !hasPath;
    const advice = lost ? '; there is no PATH in its environment to look it up in' : '';
    throw new CommandFailure(`${describeExit(exit)}${advice}`);
  }

  async #take(event: CommandEvent, questions: Questions): Promise<void> {
    switch (event.type) {
      case 'text':
        return this.#output.text(event.text);
      case 'event':
        return this.#output.event(event);
      case 'artifact':
        return this.#output.artifact(event);
      case 'result':
        this.#result = { text: event.text, usage: event.usage };
        if (event.usage !== undefined) await this.#output.usage(event.usage);
        return this.#resulted();
      case 'usage':
        return this.#output.usage(event.usage);
      case 'error':
        throw new CommandFailure(`failed: ${event.message}`);
      case 'approve':
      case 'ask':
        if (this.launch.settings.input === 'text')
          throw new CommandFailure(
            `asked "${clip(event.title, 200)}", and has no input for the answer (input: "ndjson")`,
          );
        await this.#output.flush();
        return questions.ask(event);
      default:
        return event satisfies never;
    }
  }

  #ignore(sample: string, why: string, bytes: number): void {
    this.#noise.lines += 1;
    this.#noise.bytes += bytes;
    if (this.#noise.lines > NOISE_SAMPLES) return;
    const line = clip(this.redactor.text(cleanText(sample)), 200);
    this.ctx.log('warn', "a line on the command's standard output is no event and was ignored", { line, why });
  }
}
