/** What checks work with: a client, the provider's manifest, its scenarios, and every log that was read so far. */
import { setTimeout as delay } from 'node:timers/promises';
import type { HoldfastClient, StartedExecution } from '../client/index.js';
import { type ErrorCode, HoldfastError } from '../protocol/errors.js';
import type { HoldfastEvent } from '../protocol/event.js';
import type { Execution, StartExecutionRequest } from '../protocol/execution.js';
import { canonicalJson } from '../protocol/json.js';
import { type CapabilityLevel, capabilityLevel, type ProviderManifest } from '../protocol/manifest.js';
import type { Scenario, Scenarios } from './scenarios.js';

/** What the kit uses of a client: that of Holdfast, or one of your own for another way to reach a deployment. */
export type ConformanceClient = Pick<
  HoldfastClient,
  | 'describeRuntime'
  | 'createConversation'
  | 'startExecution'
  | 'getExecution'
  | 'listEvents'
  | 'events'
  | 'artifacts'
  | 'waitForTerminal'
  | 'respond'
  | 'cancel'
>;

/** A promise that does not hold. Its message says which, and what was there instead. */
export class Violation extends Error {
  override readonly name = 'Violation';
}

/** Nothing to check here. Its message says why. */
export class Skipped extends Error {
  override readonly name = 'Skipped';
}

export interface Check {
  readonly name: string;
  /** Resolves when it holds, with what is worth telling. @throws Violation, Skipped */
  run(kit: Kit): Promise<string | undefined>;
}

export interface KitOptions {
  readonly client: ConformanceClient;
  readonly providerId: string;
  /** What the provider itself says it is, where it is at hand. */
  readonly own?: ProviderManifest;
  readonly scenarios: Scenarios;
  readonly slots?: number;
  readonly timeoutMs: number;
  /** How often the provider's own cleanup was called, by execution; where that can be seen. */
  readonly cleanups?: ReadonlyMap<string, number>;
}

export interface Finished {
  readonly execution: Execution;
  readonly events: readonly HoldfastEvent[];
}

const POLL_MS = 20;

export class Kit {
  readonly client: ConformanceClient;
  readonly scenarios: Scenarios;
  /** The log of each execution that has ended, by id. */
  readonly logs = new Map<string, Finished>();
  private readonly runs = new Map<string, Promise<unknown>>();
  private readonly started = new Set<string>();

  constructor(readonly options: KitOptions) {
    this.client = options.client;
    this.scenarios = options.scenarios;
  }

  /** As the catalog has it. */
  async manifest(): Promise<ProviderManifest> {
    return await this.once('manifest', async () => {
      const { providers } = await this.client.describeRuntime();
      const found = providers.find(({ id }) => id === this.options.providerId);
      if (found !== undefined) return found;
      const there = providers.map(({ id }) => id).join(', ');
      throw new Violation(`there is no provider ${this.options.providerId}; there are: ${there}`);
    });
  }

  async level(capability: string): Promise<CapabilityLevel> {
    return capabilityLevel(await this.manifest(), capability);
  }

  /** Skips the check unless the manifest claims the capability and the scenario is there. */
  async needs<K extends keyof Scenarios>(capability: string, scenario: K): Promise<NonNullable<Scenarios[K]>> {
    if ((await this.level(capability)) === 'unsupported') throw new Skipped(`${capability} is not claimed`);
    return this.scenario(scenario);
  }

  scenario<K extends keyof Scenarios>(name: K): NonNullable<Scenarios[K]> {
    const found = this.scenarios[name];
    if (found === undefined) throw new Skipped(`no scenario "${name}" was given`);
    return found;
  }

  /** What several checks look at is made once. */
  once<T>(name: string, make: () => Promise<T>): Promise<T> {
    const made = this.runs.get(name) ?? make();
    this.runs.set(name, made);
    return made as Promise<T>;
  }

  async start(scenario: Scenario, more: Partial<StartExecutionRequest> = {}): Promise<Execution> {
    return (await this.submit(scenario, more)).execution;
  }

  async submit(scenario: Scenario, more: Partial<StartExecutionRequest> = {}): Promise<StartedExecution> {
    const conversationId = more.conversationId ?? (await this.client.createConversation()).id;
    const { input = 'hello', config = {} } = scenario;
    const { providerId } = this.options;
    const started = await this.client.startExecution({ providerId, input, config, ...more, conversationId });
    this.started.add(started.execution.id);
    return started;
  }

  /** Starts it and waits for its end. */
  async run(scenario: Scenario, more: Partial<StartExecutionRequest> = {}): Promise<Finished> {
    return await this.finish((await this.start(scenario, more)).id);
  }

  /** Waits for the end and reads the whole log. */
  async finish(id: string): Promise<Finished> {
    const execution = await this.client
      .waitForTerminal(id, { timeoutMs: this.options.timeoutMs })
      .catch(async (error) => {
        const { state } = await this.client.getExecution(id);
        throw new Violation(`execution ${id} did not end within ${this.options.timeoutMs} ms (${state}): ${error}`);
      });
    const events: HoldfastEvent[] = [];
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), this.options.timeoutMs);
    try {
      for await (const event of this.client.events(id, { signal: late.signal })) events.push(event);
    } finally {
      clearTimeout(timer);
    }
    if (late.signal.aborted) throw new Violation(`the log of ${id}, which has ended, was not read to its end`);
    const finished = { execution, events };
    this.logs.set(id, finished);
    return finished;
  }

  /** The execution once it is as it should be. */
  async until(id: string, what: string, fits: (execution: Execution) => boolean): Promise<Execution> {
    const end = performance.now() + this.options.timeoutMs;
    for (;;) {
      const execution = await this.client.getExecution(id);
      if (fits(execution)) return execution;
      if (performance.now() > end || execution.endedAt !== undefined)
        throw new Violation(`execution ${id} was never ${what}: it is ${execution.state} ${why(execution)}`);
      await delay(POLL_MS);
    }
  }

  running(id: string): Promise<Execution> {
    return this.until(id, 'running', ({ state }) => state === 'running');
  }

  /** Ends what a check has left behind. */
  async cleanUp(): Promise<void> {
    for (const id of this.started) if (!this.logs.has(id)) await this.client.cancel(id).catch(() => undefined);
  }
}

function why({ error }: Execution): string {
  return error === undefined ? '' : `(${error.code}: ${error.message})`;
}

export function must(holds: boolean, otherwise: string): asserts holds {
  if (!holds) throw new Violation(otherwise);
}

export function mustEqual(what: string, actual: unknown, expected: unknown): void {
  const [a, b] = [asText(actual), asText(expected)];
  must(a === b, `${what}: ${a} instead of ${b}`);
}

/** The order of keys says nothing. */
function asText(value: unknown): string {
  return value === undefined ? 'nothing' : canonicalJson(JSON.parse(JSON.stringify(value)));
}

/** The code with which a call is refused. */
export async function refusalOf(call: Promise<unknown>): Promise<ErrorCode | 'accepted'> {
  try {
    await call;
    return 'accepted';
  } catch (error) {
    if (error instanceof HoldfastError) return error.code;
    throw error;
  }
}

export async function mustRefuse(what: string, call: Promise<unknown>, ...codes: readonly ErrorCode[]): Promise<void> {
  const got = await refusalOf(call);
  must(
    codes.some((code) => code === got),
    `${what}: ${got} instead of ${codes.join(' or ')}`,
  );
}
