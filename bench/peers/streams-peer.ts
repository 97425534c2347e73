/**
 * The workflow-streams peer: a package of its own, since it pins another version of the SDK. Installed on demand, and
 * left out with a clear reason where that cannot be done.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { StreamResult } from '../measures/streaming.js';

const FOLDER = fileURLToPath(new URL('./workflow-streams/', import.meta.url));
const INSTALL_TIMEOUT_MS = 180_000;
const ANSWER_TIMEOUT_MS = 60_000;

export interface StreamTask {
  readonly events: number;
  readonly perSecond: number;
  /** Batches every 20 ms and no cooldown between polls, instead of the package's defaults. */
  readonly tuned: boolean;
}

export class StreamsPeer {
  private readonly answers: AsyncIterator<string>;

  private constructor(private readonly child: ChildProcess) {
    if (child.stdout === null) throw new Error('a child without standard output');
    this.answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** Installs what is missing and starts the peer; or says, in a text, why there is none. */
  static async start(address: string, say: (line: string) => void): Promise<StreamsPeer | string> {
    const failure = await install(say);
    if (failure !== undefined) return failure;
    const child = spawn(process.execPath, ['peer.js', address, 'default'], {
      cwd: FOLDER,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const peer = new StreamsPeer(child);
    try {
      await peer.answer();
      return peer;
    } catch (error) {
      await peer.stop();
      return `its process did not come up (${String(error)})`;
    }
  }

  async stream(task: StreamTask): Promise<StreamResult> {
    this.child.stdin?.write(`${JSON.stringify(task)}\n`);
    const answer = (await this.answer()) as StreamResult | { error: string };
    if ('error' in answer) throw new Error(`workflow-streams: ${answer.error}`);
    return answer;
  }

  private async answer(): Promise<unknown> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new Error('no answer in time')), ANSWER_TIMEOUT_MS);
    });
    try {
      const { value, done } = await Promise.race([this.answers.next(), late]);
      if (done) throw new Error('it ended');
      return JSON.parse(value);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Ends its input, and the process when that is not enough. */
  async stop(): Promise<void> {
    const { child } = this;
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
    child.stdin?.end();
    const force = setTimeout(() => child.kill('SIGKILL'), 10_000);
    await ended;
    clearTimeout(force);
  }
}

async function install(say: (line: string) => void): Promise<string | undefined> {
  if (existsSync(`${FOLDER}node_modules/@temporalio/workflow-streams`)) return undefined;
  say('installing workflow-streams for comparison');
  try {
    const args = ['install', '--no-package-lock', '--no-audit', '--no-fund', '--loglevel=error'];
    await promisify(execFile)('npm', args, { cwd: FOLDER, timeout: INSTALL_TIMEOUT_MS });
    return undefined;
  } catch (error) {
    const text = (error as { stderr?: unknown }).stderr;
    const line = typeof text === 'string' ? text.split('\n').find((each) => each.trim() !== '') : undefined;
    return `npm could not install it (${(line ?? String(error)).replace(/https?:\S+/g, '…').slice(0, 200)})`;
  }
}
