/**
 * A child process as providers hold it: its own group, an environment that is all listed, errors that are values and
 * an end that leaves nothing behind.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { Readable, type Writable } from 'node:stream';
import { childEnvironment, type EnvironmentOptions, newMarker } from './environment.js';
import type { ProcessExit } from './exit.js';
import { acquireGuard } from './guard.js';
import { StderrTail } from './stderr-tail.js';
import { STOP_LIMITS, type StopLimits, type StopReport, stopTree } from './stop.js';
import { ProcessTree, startedAt } from './tree.js';
import { settledWithin } from './wait.js';

export interface SpawnOptions extends EnvironmentOptions {
  readonly command: string;
  readonly args?: readonly string[];
  /** An existing directory; a missing one looks like a missing command (ENOENT). */
  readonly cwd: string;
}

export interface RunningProcess {
  /** Undefined when it could not be started. */
  readonly pid: number | undefined;
  readonly stdout: Readable;
  /** Resolves when the process itself has ended; its children may still hold its pipes. Never rejects. */
  readonly exited: Promise<ProcessExit>;
  /** Resolves when writing to it failed (it ended or closed its input). Never rejects. */
  readonly inputBroken: Promise<Error>;
  /** Resolves when there is room for more, and also when nobody reads any more: see `inputBroken`. Never rejects. */
  write(text: string): Promise<void>;
  /** Ends its input while it runs on. */
  closeInput(): void;
  /** The end of what it wrote to standard error, clean. */
  stderr(): string;
  /**
   * Ends it and all that belongs to it (`stopTree`). One whose input was closed before gets no time to end by itself,
   * for it hears nothing new. Repeated calls get the first one's report. Never rejects.
   */
  stop(limits?: StopLimits): Promise<StopReport>;
}

/** Milliseconds for the rest of standard error once everybody who could write to it is gone. */
const STDERR_MS = 500;

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

/** Starts a process. Never throws: what could not be started has `exited` with `not_started`. */
export function startProcess(options: SpawnOptions): RunningProcess {
  const marker = newMarker();
  // Told before the child exists: had we died in between, nobody would know of it.
  const guard = acquireGuard(marker);
  let child: Child;
  try {
    child = spawn(options.command, [...(options.args ?? [])], {
      cwd: options.cwd,
      env: childEnvironment(options, marker),
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
  } catch (error) {
    guard.release();
    return notStarted(error instanceof Error ? error : new Error(String(error)));
  }

  const exited = new Promise<ProcessExit>((resolve) => {
    child.once('exit', (code, signal) => {
      resolve(signal === null ? { kind: 'code', code: code ?? 0 } : { kind: 'signal', signal });
    });
    child.on('error', (error) => {
      if (child.pid === undefined) resolve({ kind: 'not_started', error });
    });
  });
  const inputBroken = new Promise<Error>((resolve) => child.stdin.on('error', resolve));
  // Always drained: a child that waits for room on standard error never answers.
  const tail = new StderrTail();
  child.stderr.on('data', (chunk: Buffer) => tail.push(chunk));
  child.stderr.on('error', () => {});
  const stderrEnded = new Promise((resolve) => child.stderr.once('close', resolve));
  child.stdout.on('error', () => {});

  const { pid } = child;
  const root = { pid: pid ?? 0, started: pid === undefined ? 0 : startedAt(pid), marker };
  if (pid !== undefined) guard.started(pid, root.started);

  const stop = async (given: StopLimits): Promise<StopReport> => {
    if (pid === undefined) {
      guard.release();
      return { forced: false, left: [] };
    }
    const limits = child.stdin.writableEnded ? { ...given, inputGraceMs: 0 } : given;
    const report = await stopTree({ tree: new ProcessTree(root), exited, closeInput: () => child.stdin.end() }, limits);
    guard.release();
    child.stdin.destroy();
    // Its last words may still be in the pipe.
    await settledWithin(stderrEnded, STDERR_MS);
    child.stderr.destroy();
    return report;
  };
  let stopping: Promise<StopReport> | undefined;
  return {
    pid,
    stdout: child.stdout,
    exited,
    inputBroken,
    write: (text) =>
      new Promise((resolve) => {
        if (child.stdin.writable) child.stdin.write(text, () => resolve());
        else resolve();
      }),
    closeInput: () => child.stdin.end(),
    stderr: () => tail.text(),
    stop: (limits = STOP_LIMITS) => {
      stopping ??= stop(limits);
      return stopping;
    },
  };
}

function notStarted(error: Error): RunningProcess {
  return {
    pid: undefined,
    stdout: Readable.from([]),
    exited: Promise.resolve({ kind: 'not_started', error }),
    inputBroken: Promise.resolve(error),
    write: async () => {},
    closeInput: () => {},
    stderr: () => '',
    stop: async () => ({ forced: false, left: [] }),
  };
}
