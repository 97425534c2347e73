/** The command as it is shipped, compiled once for a test file: from its sources each call would take twice as long. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { type CommandOptions, type Ended, type Running, start } from './command.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PTY = fileURLToPath(new URL('./terminal.py', import.meta.url));
const PYTHON = execFileSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).trim();

export class Built {
  private readonly folder = join(ROOT, '.cache', `cli-test-${process.pid}-${Date.now()}`);

  /** @param env for every run; what a test gives besides wins */
  constructor(readonly env: NodeJS.ProcessEnv = {}) {
    mkdirSync(this.folder, { recursive: true });
    const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
    // The sources are checked elsewhere.
    const options = ['--outDir', this.folder, '--noCheck', '--declaration', 'false'];
    execFileSync(process.execPath, [tsc, '-p', 'tsconfig.build.json', ...options], { cwd: ROOT });
  }

  get command(): [string, string] {
    return [process.execPath, join(this.folder, 'cli', 'main.js')];
  }

  /** Without a terminal. */
  start(args: readonly string[], options: CommandOptions = {}): Running {
    return start(args, { command: this.command, ...options, env: { ...this.env, ...options.env } });
  }

  async run(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
    return await this.start(args, options).ended;
  }

  /** At a terminal of its own: `type` is its keyboard, `stdout` its screen. */
  atTerminal(args: readonly string[], options: CommandOptions = {}): Terminal {
    // By its path: what is on PATH may be what is tried.
    const command = [PYTHON, PTY, ...this.command] as [string, ...string[]];
    return new Terminal(
      start(args, { ...options, command, stdin: 'pipe', env: { ...this.env, TERM: 'xterm', ...options.env } }),
    );
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export class Terminal {
  constructor(readonly running: Running) {}

  /** What the screen has shown, without colours and cursor movements. */
  get screen(): string {
    return stripVTControlCharacters(this.running.stdout).replaceAll('\r', '');
  }

  async shows(text: string | RegExp): Promise<void> {
    await this.running.until(
      () => (typeof text === 'string' ? this.screen.includes(text) : text.test(this.screen)),
      String(text),
    );
  }

  type(keys: string): void {
    this.running.child.stdin?.write(keys);
  }

  /** As when its window is closed. */
  close(): void {
    this.running.child.stdin?.end();
  }

  get ended(): Promise<Ended> {
    return this.running.ended;
  }
}

/** The lines of `--json` output. */
export function records<T = Record<string, unknown>>(stdout: string): T[] {
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as T);
}
