/** The command `holdfast` as a process, from its sources, with a temporary folder of its own to find what it leaves. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { processesWith } from '../support/processes.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** What a developer's shell, or the machine that tests a change, may hold and a test must not heed. */
const FOREIGN = [
  /^(TEMPORAL_|OPENAI_|ANTHROPIC_|npm_lifecycle_event$|HOLDFAST_(?!WORKFLOW_BUNDLE|CACHE_DIR))/,
  // What terminals and build services set, and libraries choose their colours and animations by.
  /^(NO_COLOR|FORCE_COLOR|NODE_DISABLE_COLORS|COLORTERM|TERM|TERM_PROGRAM|TMUX|CI|TEAMCITY_VERSION|COLUMNS|LINES)$/,
];

/** In milliseconds: far more than any of these runs takes. */
const PATIENCE_MS = 120_000;

export interface CommandOptions {
  readonly env?: NodeJS.ProcessEnv;
  /** What to run instead of `node cli/main.ts`, before the arguments. */
  readonly command?: readonly [string, ...string[]];
  /** Default `ignore`: nothing to read, and no terminal. */
  readonly stdin?: 'ignore' | 'pipe';
  /** Where it runs; by default the checkout. */
  readonly cwd?: string;
}

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
}

/** A run under way. */
export class Running {
  stdout = '';
  stderr = '';
  readonly ended: Promise<Ended>;
  private readonly changed = new Set<() => void>();

  constructor(
    readonly child: ChildProcess,
    readonly scratch: string,
  ) {
    const from = Date.now();
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
      for (const look of this.changed) look();
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
    this.ended = new Promise((resolve) =>
      child.once('close', (code) => {
        resolve({ code, stdout: this.stdout, stderr: this.stderr, ms: Date.now() - from });
        for (const look of this.changed) look();
      }),
    );
  }

  /** Resolves when the output holds `text`; rejects when it ends without. */
  async says(text: string | RegExp): Promise<void> {
    await this.until(
      () => (typeof text === 'string' ? this.stdout.includes(text) : text.test(this.stdout)),
      String(text),
    );
  }

  /** Resolves when the output is as wanted; rejects when it ends before, or is not for two minutes. */
  async until(found: () => boolean, what: string): Promise<void> {
    const late = setTimeout(() => this.child.kill('SIGKILL'), PATIENCE_MS);
    try {
      await this.look(found, what);
    } finally {
      clearTimeout(late);
    }
  }

  private async look(found: () => boolean, what: string): Promise<void> {
    const end = this.ended.then(() => true);
    while (!found()) {
      const step = new Promise<false>((resolve) => {
        const look = (): void => {
          this.changed.delete(look);
          resolve(false);
        };
        this.changed.add(look);
      });
      if ((await Promise.race([step, end])) && !found())
        throw new Error(`it ended without saying ${what}:\n${this.stdout}${this.stderr}`);
    }
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  /** Processes and files that are left; both empty when the run was clean. */
  left(): { processes: number[]; files: string[] } {
    return { processes: processesWith(basename(this.scratch)), files: readdirSync(this.scratch) };
  }
}

const scratches: string[] = [];

export function start(args: readonly string[], options: CommandOptions = {}): Running {
  const scratch = mkdtempSync(join(tmpdir(), 'holdfast-test-'));
  scratches.push(scratch);
  const own = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !FOREIGN.some((each) => each.test(name))),
  );
  const [program, ...before] = options.command ?? [process.execPath, '--import', 'tsx', join('cli', 'main.ts')];
  const child = spawn(program, [...before, ...args], {
    cwd: options.cwd ?? ROOT,
    stdio: [options.stdin ?? 'ignore', 'pipe', 'pipe'],
    env: {
      ...own,
      TMPDIR: scratch,
      XDG_CONFIG_HOME: scratch,
      TSX_DISABLE_CACHE: '1',
      npm_config_update_notifier: 'false',
      ...options.env,
    },
  });
  return new Running(child, scratch);
}

export function run(args: readonly string[], options: CommandOptions = {}): Promise<Ended> {
  return start(args, options).ended;
}

/** For `afterAll`. */
export function removeScratches(): void {
  for (const scratch of scratches.splice(0)) rmSync(scratch, { recursive: true, force: true });
}

/** The places of `parts` in `text`; increasing when they stand there in this order. Fails for one that is missing. */
export function inOrder(text: string, parts: readonly (string | RegExp)[]): void {
  let from = 0;
  for (const part of parts) {
    const rest = text.slice(from);
    const match = typeof part === 'string' ? { at: rest.indexOf(part), length: part.length } : found(rest, part);
    if (match.at === -1) throw new Error(`${part} does not follow in:\n${rest}\n--- of ---\n${text}`);
    from += match.at + match.length;
  }
}

function found(text: string, part: RegExp): { at: number; length: number } {
  const match = part.exec(text);
  return match === null ? { at: -1, length: 0 } : { at: match.index, length: match[0].length };
}
