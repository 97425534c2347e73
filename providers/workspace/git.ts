/**
 * Git, as the worker runs it. Never inside of what an agent could have configured: a repository's own configuration can
 * name programs that git starts. So every command is given a git folder of ours, and the agent's files as a work tree at
 * most.
 */
import { spawn } from 'node:child_process';
import { HoldfastError } from '../../protocol/errors.js';
import { clip } from '../../protocol/json.js';
import { cleanText, StderrTail } from '../process/stderr-tail.js';

/** Of what a command may print, in bytes. */
const MAX_OUTPUT = 64 * 1024 * 1024;
const LOCAL_TIMEOUT_MS = 5 * 60_000;

/** Whatever the worker's own git configuration says, these hold. */
const SETTINGS = {
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  'core.untrackedCache': 'false',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  'protocol.ext.allow': 'never',
  'submodule.recurse': 'false',
  'diff.ignoreSubmodules': 'all',
  'advice.addEmbeddedRepo': 'false',
} as const;

/** Of git's own variables those that find credentials and configuration. */
const PASSED =
  /^GIT_(?:SSH|SSH_COMMAND|ASKPASS|SSL_\w+|PROXY_\w+|HTTP_\w+|CONFIG_GLOBAL|CONFIG_SYSTEM|CONFIG_NOSYSTEM|EXEC_PATH)$/;
/** What a command gets that talks to nobody: of the worker's secrets none. */
const LOCAL = /^(?:PATH|HOME|XDG_CONFIG_HOME|TMPDIR|USER|GIT_CONFIG_\w+|GIT_EXEC_PATH)$/;

export interface GitOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly input?: string;
  /** A file descriptor that gets the output. */
  readonly output?: number;
  /** It talks to the remote, and may use the worker's environment for that: agents of keys, proxies. */
  readonly remote?: true;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** Runs one command and resolves with its output. Rejects with a `PROVIDER_ERROR` that ends with git's own words. */
export async function git(args: readonly string[], options: GitOptions): Promise<string> {
  const settings = Object.entries(SETTINGS).flatMap(([key, value]) => ['-c', `${key}=${value}`]);
  const limits = [options.signal ?? [], AbortSignal.timeout(options.timeoutMs ?? LOCAL_TIMEOUT_MS)].flat();
  const child = spawn('git', [...settings, ...args], {
    cwd: options.cwd,
    env: environment(options),
    stdio: ['pipe', options.output ?? 'pipe', 'pipe'],
    signal: AbortSignal.any(limits),
    killSignal: 'SIGTERM',
  });
  const tail = new StderrTail();
  child.stderr?.on('data', (chunk: Buffer) => tail.push(chunk));
  const chunks: Buffer[] = [];
  let bytes = 0;
  child.stdout?.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
    if (bytes <= MAX_OUTPUT) chunks.push(chunk);
    else child.kill();
  });
  child.stdin?.on('error', () => {});
  child.stdin?.end(options.input ?? '');
  const how = await new Promise<string | undefined>((resolve) => {
    child.on('error', (error) =>
      resolve(error.name === 'AbortError' ? 'took too long, or was stopped' : error.message),
    );
    child.on('close', (code, signal) => resolve(code === 0 ? undefined : `ended with ${code ?? signal}`));
  });
  if (how === undefined && bytes <= MAX_OUTPUT) return Buffer.concat(chunks).toString('utf8');
  const words = clip(cleanText(tail.text()).trim(), 1000);
  const command = args.find((each) => /^[a-z]+(?:-[a-z]+)*$/.test(each)) ?? '';
  throw new HoldfastError(
    'PROVIDER_ERROR',
    `git ${command} ${how ?? 'printed too much'}${words === '' ? '' : `: ${words}`}`,
  );
}

function environment({ env = {}, remote }: GitOptions): NodeJS.ProcessEnv {
  const passed = (key: string) => (remote === true ? !key.startsWith('GIT_') || PASSED.test(key) : LOCAL.test(key));
  const ours = Object.entries(process.env).filter(([key]) => passed(key));
  return { ...Object.fromEntries(ours), GIT_TERMINAL_PROMPT: '0', GIT_OPTIONAL_LOCKS: '0', LC_ALL: 'C', ...env };
}
