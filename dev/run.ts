import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, join } from 'node:path';

/** What a helper program left behind. `output` is the end of both streams, as read. */
export interface RunResult {
  ok: boolean;
  output: string;
}

export interface RunOptions {
  env: NodeJS.ProcessEnv;
  /** Milliseconds after which the program is killed and the run counts as failed. */
  timeoutMs: number;
  /** Asked once a second; a string ends the run at once, as failed, with that text as its reason. */
  giveUp?: () => Promise<string | undefined>;
}

/** How many characters of a child's output are kept for an error message. */
const TAIL_CHARACTERS = 8_000;

/** Keeps the end of a child's output: what a person needs when it dies, without growing for as long as it lives. */
export class OutputTail {
  #text = '';

  push(chunk: Buffer | string): void {
    this.#text = (this.#text + chunk.toString()).slice(-TAIL_CHARACTERS);
  }

  get text(): string {
    return this.#text.trim();
  }
}

/** Runs a program to its end. Never rejects: a program that can't be started is a failed run with the reason. */
export async function run(command: string, args: readonly string[], options: RunOptions): Promise<RunResult> {
  const tail = new OutputTail();
  const child = spawn(command, args, { env: options.env, stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.on('data', (chunk: Buffer) => tail.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => tail.push(chunk));

  const end = (reason: string) => {
    tail.push(`\n${reason}`);
    child.kill('SIGKILL');
  };
  const limit = setTimeout(() => end(`gave up after ${Math.round(options.timeoutMs / 1000)} s`), options.timeoutMs);
  const { giveUp } = options;
  const check = giveUp && setInterval(() => void giveUp().then((reason) => reason && end(reason)), 1_000);
  try {
    const code = await new Promise<number | null>((resolve) => {
      child.once('error', (error) => {
        tail.push(error.message);
        resolve(null);
      });
      child.once('close', resolve);
    });
    return { ok: code === 0, output: tail.text };
  } finally {
    clearTimeout(limit);
    clearInterval(check);
  }
}

/** Is this a file that we may execute? */
export async function isExecutable(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false;
  }
}

/** The first executable of that name in PATH, as a full path. */
export async function findOnPath(name: string, env: NodeJS.ProcessEnv): Promise<string | undefined> {
  for (const folder of (env.PATH ?? '').split(delimiter)) {
    if (folder === '') continue;
    const path = join(folder, name);
    if (await isExecutable(path)) return path;
  }
  return undefined;
}

/** The last line of a program's output that says something: what fits in a one-line reason. */
export function lastLine(output: string): string {
  const lines = output
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  return (lines.at(-1) ?? 'no output').slice(0, 400);
}
