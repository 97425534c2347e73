/**
 * One agent process and the conversation with it. A request always settles: with its answer, or with an `AgentFailure`
 * that says what became of the agent.
 */
import { isAbsolute } from 'node:path';
import * as acp from '@agentclientprotocol/sdk';
import { HoldfastError } from '../../protocol/errors.js';
import { describeExit } from '../process/exit.js';
import { LineTooLongError } from '../process/lines.js';
import { type RunningProcess, startProcess } from '../process/spawn.js';
import type { StopReport } from '../process/stop.js';
import { delay, settledWithin } from '../process/wait.js';
import { AgentFailure, refusedRequest } from './failure.js';
import type { Launch } from './options.js';
import { AgentWire, type Noise, type WireOptions } from './wire.js';

/** Milliseconds of silence on the output after the exit, or for the exit after the output's end. */
const QUIET_MS = 500;
/** Milliseconds for either of them after a write has failed. */
const BROKEN_INPUT_MS = 1000;

interface AgentEnd {
  readonly started: boolean;
  /** As the end of a sentence that begins with the agent. */
  readonly what: string;
}

export interface ConnectionOptions extends WireOptions {
  readonly launch: Launch;
  /** Answers a `session/request_permission`; `signal` aborts when the agent takes it back or is gone. */
  onPermission(params: unknown, signal: AbortSignal): Promise<acp.RequestPermissionResponse>;
  /** A request or notification that we do not speak. */
  onUnknown(method: string): void;
}

export class AgentConnection {
  readonly #process: RunningProcess;
  readonly #wire: AgentWire;
  readonly #rpc: acp.ClientConnection;
  /** What became of the agent, once that is known. Never rejects. */
  readonly #ended: Promise<AgentEnd>;

  /** Starts the agent. Never throws: what could not be started fails the first request. */
  constructor(options: ConnectionOptions) {
    const { command, args, env, passEnv, secretEnv } = options.launch.settings;
    this.#process = startProcess({
      command,
      cwd: options.launch.cwd,
      ...(args === undefined ? {} : { args }),
      ...(env === undefined ? {} : { env }),
      ...(passEnv === undefined ? {} : { passEnv }),
      ...(secretEnv === undefined ? {} : { secretEnv }),
    });
    this.#wire = new AgentWire(this.#process, options);
    this.#rpc = acp
      .client({ name: 'holdfast' })
      .onRequest(
        acp.methods.client.session.requestPermission,
        (params: unknown) => params,
        ({ params, signal }) => options.onPermission(params, signal),
      )
      .onRequest('*', ({ method }) => {
        options.onUnknown(method);
        throw acp.RequestError.methodNotFound(method);
      })
      .onNotification('*', ({ method }) => {
        if (method !== acp.methods.protocol.cancelRequest) options.onUnknown(method);
      })
      .connect(this.#wire.stream);
    const hasPath = env?.PATH !== undefined || secretEnv?.PATH !== undefined || passEnv?.includes('PATH') === true;
    this.#ended = this.#watch(command, hasPath);
  }

  get noise(): Noise {
    return this.#wire.noise;
  }

  /** The end of its standard error; complete after `stop`. */
  get stderr(): string {
    return this.#process.stderr();
  }

  /** An error of the runtime that ended the reading (an update that could not be logged). */
  get failure(): HoldfastError | undefined {
    return this.#wire.failure instanceof HoldfastError ? this.#wire.failure : undefined;
  }

  /** Resolves with the agent's result, which nobody has checked yet. Rejects with an `AgentFailure`. */
  async request(method: string, params: unknown): Promise<unknown> {
    try {
      return await this.#rpc.agent.request<unknown, unknown>(method, params);
    } catch (error) {
      if (error instanceof acp.RequestError) throw refusedRequest(method, error);
      const failure = this.#wire.failure;
      if (failure instanceof HoldfastError) throw failure;
      if (failure instanceof LineTooLongError) throw new AgentFailure(`sent ${failure.message}`);
      if (failure !== undefined) throw new AgentFailure(`sent what cannot be handled: ${failure.message}`);
      const { started, what } = await this.#ended;
      throw new AgentFailure(started ? `${what} while ${method} was waiting for its answer` : what);
    }
  }

  /** Never rejects: to whom nothing can be told any more, nothing has to be. */
  async notify(method: string, params: unknown): Promise<void> {
    await this.#rpc.agent.notify<unknown>(method, params).catch(() => {});
  }

  /** Ends the agent and all that it started; what it still had to say is handed on first. Never rejects. */
  async stop(): Promise<StopReport> {
    const report = await this.#process.stop();
    if (!(await this.#wire.drained(QUIET_MS))) this.#wire.abandon();
    await this.#wire.done;
    this.#rpc.close();
    return report;
  }

  /**
   * Waits for one end of the agent and makes it the end of all. When it exits while a child of its own holds the pipe,
   * that child goes; when it closes its output and sleeps on, there is nothing to wait for.
   */
  async #watch(command: string, hasPath: boolean): Promise<AgentEnd> {
    const { exited, inputBroken } = this.#process;
    const first = await Promise.race([
      exited.then(() => 'exit' as const),
      this.#wire.done.then(() => 'output' as const),
      inputBroken.then(() => 'input' as const),
    ]);
    // A write fails just before the exit that explains it is known.
    if (first === 'input') await Promise.race([exited, this.#wire.done, delay(BROKEN_INPUT_MS)]);
    const wentAway = await settledWithin(exited, QUIET_MS);
    if (!(await this.#wire.drained(QUIET_MS))) {
      if (wentAway) await this.stop();
      else this.#rpc.close();
    }
    if (!wentAway) {
      return { started: true, what: `closed its standard ${first === 'input' ? 'input' : 'output'} and ran on` };
    }
    const exit = await exited;
    if (exit.kind !== 'not_started') return { started: true, what: describeExit(exit) };
    const advice = isAbsolute(command) || hasPath ? '' : '; there is no PATH in its environment to look it up in';
    return { started: false, what: `${describeExit(exit)}${advice}` };
  }
}
