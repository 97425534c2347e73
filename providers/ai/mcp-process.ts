/**
 * A transport for the SDK's MCP client over a process of ours: its own group, a listed environment, and an end that
 * leaves nothing behind. (The SDK's own passes our HOME and PATH on, and ends the child alone.)
 */
import type { JSONRPCMessage, MCPTransport } from '@ai-sdk/mcp';
import { describeExit } from '../process/exit.js';
import { LineSplitter } from '../process/lines.js';
import { type RunningProcess, startProcess } from '../process/spawn.js';
import type { StopReport } from '../process/stop.js';
import { settledWithin } from '../process/wait.js';
import type { McpServer } from './mcp-options.js';

const MAX_MESSAGE_BYTES = 32 * 1024 * 1024;
/** Milliseconds for the rest of the output once the process is gone. */
const QUIET_MS = 500;

export class ProcessTransport implements MCPTransport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #settings: Extract<McpServer, { type: 'stdio' }>;
  readonly #validate: (value: unknown) => JSONRPCMessage;
  #process: RunningProcess | undefined;
  #reading: Promise<void> = Promise.resolve();
  #closed = false;

  /** @param validate throws for what is no message of the protocol: other programs' lines are passed over */
  constructor(settings: Extract<McpServer, { type: 'stdio' }>, validate: (value: unknown) => JSONRPCMessage) {
    this.#settings = settings;
    this.#validate = validate;
  }

  async start(): Promise<void> {
    const { command, args, cwd, env, passEnv, secretEnv } = this.#settings;
    const child = startProcess({
      command,
      cwd,
      ...(args === undefined ? {} : { args }),
      ...(env === undefined ? {} : { env }),
      ...(passEnv === undefined ? {} : { passEnv }),
      ...(secretEnv === undefined ? {} : { secretEnv }),
    });
    this.#process = child;
    if (child.pid === undefined) throw new Error(describeExit(await child.exited));
    this.#reading = this.#read(child).then(
      () => this.#gone(child),
      (error: unknown) => this.#fail(error),
    );
    // When it is gone while a child of its own holds the pipe, nothing more is waited for.
    void child.exited.then(async () => {
      if (!(await settledWithin(this.#reading, QUIET_MS))) await this.stop();
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    if (this.#process === undefined || this.#closed) throw new Error('the process is gone');
    await this.#process.write(`${JSON.stringify(message)}\n`);
  }

  async close(): Promise<void> {
    await this.stop();
  }

  /** Ends the process and all that it started. Never rejects. */
  async stop(): Promise<StopReport> {
    const report = (await this.#process?.stop()) ?? { forced: false, left: [] };
    if (!(await settledWithin(this.#reading, QUIET_MS))) this.#process?.stdout.destroy();
    await this.#reading;
    return report;
  }

  async #read(child: RunningProcess): Promise<void> {
    const lines = new LineSplitter(MAX_MESSAGE_BYTES);
    for await (const chunk of child.stdout as AsyncIterable<Buffer>)
      for (const line of lines.push(chunk)) this.#take(line);
  }

  #take(line: Buffer): void {
    let message: JSONRPCMessage;
    try {
      message = this.#validate(JSON.parse(line.toString('utf8')));
    } catch {
      return;
    }
    this.onmessage?.(message);
  }

  async #gone(child: RunningProcess): Promise<void> {
    if (this.#closed) return;
    const ended = await settledWithin(child.exited, QUIET_MS);
    const what = ended ? describeExit(await child.exited) : 'closed its standard output';
    const words = child.stderr().slice(-500);
    this.#fail(new Error(words === '' ? what : `${what}; the end of its standard error: ${words}`));
  }

  #fail(error: unknown): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onerror?.(error instanceof Error ? error : new Error(String(error)));
    this.onclose?.();
  }
}
