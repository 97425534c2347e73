/**
 * A child whose input can be ended while it runs on: what `startProcess` makes, and that. Until it has this itself, the
 * child is put together here from the same parts.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { childEnvironment, newMarker } from '../process/environment.js';
import type { ProcessExit } from '../process/exit.js';
import { acquireGuard } from '../process/guard.js';
import type { SpawnOptions } from '../process/spawn.js';
import { StderrTail } from '../process/stderr-tail.js';
import { STOP_LIMITS, type StopReport, stopTree } from '../process/stop.js';
import { ProcessTree, startedAt } from '../process/tree.js';
import { settledWithin } from '../process/wait.js';

/** Milliseconds for the rest of standard error once everybody who could write to it is gone. */
const STDERR_MS = 500;

export interface Child {
  readonly stdout: Readable;
  /** Resolves when the process itself has ended; its children may still hold its pipes. Never rejects. */
  readonly exited: Promise<ProcessExit>;
  /** Resolves when there is room for more, and also when nobody reads any more. Never rejects. */
  write(text: string): Promise<void>;
  endInput(): void;
  /** The end of what it wrote to standard error, clean. */
  stderr(): string;
  /**
   * Ends it and all that it started. It gets time to end by itself once its input is closed; none when it is closed
   * already, for then it has heard nothing new. Repeated calls get the first one's report. Never rejects.
   */
  stop(): Promise<StopReport>;
}

/** Starts a process. Never throws: what could not be started has `exited` with `not_started`. */
export function startChild(options: SpawnOptions): Child | { readonly error: Error } {
  const marker = newMarker();
  // Told before the child exists: had we died in between, nobody would know of it.
  const guard = acquireGuard(marker);
  let child: ChildProcessByStdio<Writable, Readable, Readable>;
  try {
    child = spawn(options.command, [...(options.args ?? [])], {
      cwd: options.cwd,
      env: childEnvironment(options, marker),
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    });
  } catch (error) {
    guard.release();
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }
  const exited = new Promise<ProcessExit>((resolve) => {
    child.once('exit', (code, signal) => {
      resolve(signal === null ? { kind: 'code', code: code ?? 0 } : { kind: 'signal', signal });
    });
    child.on('error', (error) => {
      if (child.pid === undefined) resolve({ kind: 'not_started', error });
    });
  });
  const tail = new StderrTail();
  child.stderr.on('data', (chunk: Buffer) => tail.push(chunk));
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream.on('error', () => {});
  const stderrEnded = new Promise((resolve) => child.stderr.once('close', resolve));

  const { pid } = child;
  const root = { pid: pid ?? 0, started: pid === undefined ? 0 : startedAt(pid), marker };
  if (pid !== undefined) guard.started(pid, root.started);

  const stop = async (): Promise<StopReport> => {
    if (pid === undefined) {
      guard.release();
      return { forced: false, left: [] };
    }
    const limits = child.stdin.writableEnded ? { ...STOP_LIMITS, inputGraceMs: 0 } : STOP_LIMITS;
    const report = await stopTree({ tree: new ProcessTree(root), exited, closeInput: () => child.stdin.end() }, limits);
    guard.release();
    child.stdin.destroy();
    await settledWithin(stderrEnded, STDERR_MS);
    child.stderr.destroy();
    return report;
  };
  let stopping: Promise<StopReport> | undefined;
  return {
    stdout: child.stdout,
    exited,
    write: (text) =>
      new Promise((resolve) => {
        if (child.stdin.writable) child.stdin.write(text, () => resolve());
        else resolve();
      }),
    endInput: () => child.stdin.end(),
    stderr: () => tail.text(),
    stop: () => {
      stopping ??= stop();
      return stopping;
    },
  };
}
