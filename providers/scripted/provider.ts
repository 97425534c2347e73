/**
 * A provider that follows a script from its configuration: deterministic, without any harness. For tests and demos,
 * and the shortest example of waiting, suspending, journaling and stopping.
 *
 * @example
 * { "steps": [{ "say": "Deploying. " }, { "approve": { "title": "Deploy to production?" } }, { "say": "!" }] }
 */
import type { ActionResponse } from '../../protocol/action.js';
import { HoldfastError } from '../../protocol/errors.js';
import type { Usage } from '../../protocol/execution.js';
import type { Json } from '../../protocol/json.js';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { ActionQuestion, Provider, Recovery, RunContext, RunResult } from '../provider.js';
import { type ScriptedConfig, type ScriptStep, scriptedConfigSchema } from './config.js';

export type { ScriptedConfig, ScriptStep } from './config.js';

export interface ScriptedOptions {
  /** Takes steps that kill the worker process. Never where other work runs. */
  readonly allowCrash?: boolean;
  /** The manifest's id; `scripted` by default. */
  readonly id?: string;
}

/** The scripted provider. Its final output is all that it said. */
export function scriptedProvider(options: ScriptedOptions = {}): Provider<ScriptedConfig> {
  return {
    manifest: {
      id: options.id ?? 'scripted',
      name: 'Scripted',
      version: '1.0.0',
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['embedded'],
      capabilities: {
        'action.approval': 'native',
        'action.input': 'native',
        'artifact.list': 'native',
        'execution.cancel': 'native',
        'event.replay': 'native',
        'event.streaming': 'native',
        'conversation.continuity': 'unsupported',
      },
    },
    config: scriptedConfigSchema(options.allowCrash ?? false),
    recovery: recoveryOf,
    run: (ctx) => new Script(ctx).run(),
  };
}

function recoveryOf(config: ScriptedConfig): Recovery {
  return config.suspend || config.steps?.some((step) => 'record' in step) ? 'journal' : 'none';
}

/** What one step leads to, besides going on with the next. */
type Outcome = RunResult | undefined;

/** One attempt at a script. */
class Script {
  private readonly steps: readonly ScriptStep[];
  /** Where this attempt begins, and the journal's end: a suspension at `start` is on record already. */
  private readonly start: number;
  private readonly recordedSuspension: boolean;
  private deaf: boolean;
  private usage: Usage | undefined;

  constructor(private readonly ctx: RunContext<ScriptedConfig>) {
    this.steps = ctx.config.steps ?? [{ say: asText(ctx.input) }];
    const at = this.lastJournaledStep();
    const last = at === undefined ? undefined : this.steps[at];
    this.recordedSuspension = last !== undefined && !('record' in last);
    this.start = at === undefined ? 0 : this.recordedSuspension ? at : at + 1;
    // What an earlier attempt set for all that follows still holds.
    const done = this.steps.slice(0, this.start);
    this.deaf = done.some((step) => 'ignoreCancel' in step);
    this.usage = done.flatMap((step) => ('usage' in step ? [usageOf(step.usage)] : [])).at(-1);
  }

  async run(): Promise<RunResult> {
    for (let at = this.start; at < this.steps.length; at++) {
      const step = this.steps[at];
      if (step === undefined) break;
      this.stopIfTold();
      const outcome = await this.perform(step, at);
      if (outcome !== undefined) return outcome;
    }
    this.stopIfTold();
    return this.usage === undefined ? {} : { usage: this.usage };
  }

  /**
   * The step of the newest journal entry. Each `record`, and with `suspend` each action, makes exactly one entry, so
   * counting them is enough: what an entry holds is never looked at, and no user's entry can pass for a position.
   */
  private lastJournaledStep(): number | undefined {
    let entries = this.ctx.resume?.journal.length ?? 0;
    let last: number | undefined;
    for (let at = 0; at < this.steps.length && entries > 0; at++) {
      const step = this.steps[at];
      if (step === undefined || !this.journals(step)) continue;
      last = at;
      entries--;
    }
    return last;
  }

  private journals(step: ScriptStep): boolean {
    return 'record' in step || (this.ctx.config.suspend === true && ('approve' in step || 'ask' in step));
  }

  private async perform(step: ScriptStep, at: number): Promise<Outcome> {
    if ('say' in step) return this.say(step.say, step.chunk, step.everyMs);
    if ('wait' in step) return this.wait(step.wait);
    if ('approve' in step) {
      const { title, ...rest } = step.approve;
      return this.act({ kind: 'approval', title, ...defined(rest) }, at);
    }
    if ('ask' in step) {
      const { title, ...rest } = step.ask;
      return this.act({ kind: 'input', title, ...defined(rest) }, at);
    }
    if ('artifact' in step) {
      const { name, mediaType, id, uri, metadata } = step.artifact;
      return this.heed(() => this.ctx.artifact({ name, mediaType, ...defined({ id, uri, metadata }) }));
    }
    if ('native' in step) {
      const data = { ...step.native, name: String(step.native.name) };
      return this.heed(() => this.ctx.emit('provider.event', data));
    }
    if ('record' in step) return this.heed(() => this.ctx.record(step.record));
    if ('flood' in step) return this.flood(step.flood.events, step.flood.bytes ?? 16);
    if ('session' in step) return this.heed(() => this.ctx.setSession(step.session));
    if ('usage' in step) {
      const usage = usageOf(step.usage);
      this.usage = usage;
      return this.heed(() => this.ctx.reportUsage(usage));
    }
    if ('fail' in step) throw new HoldfastError('PROVIDER_ERROR', step.fail);
    if ('hang' in step) return this.isDue(step.attempts) ? this.wait(undefined) : undefined;
    if ('ignoreCancel' in step) {
      this.deaf = true;
      return undefined;
    }
    if ('crash' in step) {
      if (!this.isDue(step.attempts)) return undefined;
      process.kill(process.pid, 'SIGKILL');
      return this.wait(undefined);
    }
    return step satisfies never;
  }

  private async say(text: string, chunk: number | undefined, everyMs: number | undefined): Promise<undefined> {
    const size = chunk ?? (everyMs === undefined ? undefined : 1);
    let first = true;
    for (const piece of size === undefined ? [text] : pieces(text, size)) {
      if (piece === '') continue;
      if (!first && everyMs !== undefined) await this.wait(everyMs);
      first = false;
      await this.emitText(piece);
    }
  }

  /** Numbered text, so that a reader sees at once what is missing or out of order. */
  private async flood(events: number, bytes: number): Promise<undefined> {
    for (let i = 1; i <= events; i++) {
      this.stopIfTold();
      await this.emitText(String(i).padStart(bytes, '.').slice(-bytes));
    }
  }

  private emitText(text: string): Promise<undefined> {
    return this.heed(() => this.ctx.emit('output.text.delta', { text }));
  }

  /** Asks, and says what was answered; with `suspend` ends the attempt, unless it was started by the answer. */
  private async act(question: ActionQuestion, at: number): Promise<Outcome> {
    let response: ActionResponse | undefined;
    if (this.ctx.config.suspend !== true) {
      await this.heed(async () => {
        response = await this.ctx.requestAction(question);
      });
      // Withdrawn, and deaf to why.
      if (response === undefined) return undefined;
    } else {
      const recorded = this.recordedSuspension && at === this.start;
      response = recorded ? this.ctx.resume?.response : undefined;
      if (response === undefined) {
        // The attempt that recorded its position but was lost before it suspended has left the entry behind.
        if (!recorded) await this.heed(() => this.ctx.record({ suspendedAtStep: at }));
        return this.ctx.suspend(question);
      }
    }
    return this.say(saidOf(question, response), undefined, undefined);
  }

  /** Until so much time has passed, or for ever; rejects at once when told to stop, and leaves no timer behind. */
  private wait(ms: number | undefined): Promise<undefined> {
    const { signal } = this.ctx;
    return new Promise((resolve, reject) => {
      const deaf = this.deaf;
      const timer = ms === undefined ? undefined : setTimeout(() => end(() => resolve(undefined)), ms);
      const stop = () => end(() => reject(signal.reason));
      const end = (settle: () => void) => {
        clearTimeout(timer);
        signal.removeEventListener('abort', stop);
        settle();
      };
      if (deaf) return;
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    });
  }

  private stopIfTold(): void {
    if (!this.deaf) this.ctx.signal.throwIfAborted();
  }

  /** Calls the runtime. A deaf script does not hear either that it is refused because it has to stop. */
  private async heed(call: () => Promise<unknown>): Promise<undefined> {
    try {
      await call();
    } catch (error) {
      if (!(this.deaf && this.ctx.signal.aborted)) throw error;
    }
  }

  private isDue(attempts: number | undefined): boolean {
    return attempts === undefined || this.ctx.execution.attempt <= attempts;
  }
}

/** Pieces of so many characters. By code points, so a surrogate pair is never split. */
function* pieces(text: string, size: number): Generator<string> {
  let piece = '';
  let length = 0;
  for (const character of text) {
    piece += character;
    if (++length < size) continue;
    yield piece;
    piece = '';
    length = 0;
  }
  yield piece;
}

function saidOf({ kind }: ActionQuestion, { approved, value, metadata }: ActionResponse): string {
  if (approved !== true && metadata?.expired === true) return 'expired';
  return kind === 'input' ? asText(value) : approved ? 'approved' : 'rejected';
}

function asText(value: Json | undefined): string {
  return typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
}

function usageOf(usage: Extract<ScriptStep, { usage: unknown }>['usage']): Usage {
  return { ...usage };
}

/** Without the keys that hold `undefined`. */
function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
