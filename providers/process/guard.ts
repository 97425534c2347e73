/**
 * For the case that our own process is killed with -9: one small process beside all children of this process, holding
 * a pipe that only we hold too. When the pipe ends, so does all that it was told of. It lives only while there is a
 * child, in a session of its own, so that a signal to our group does not take it along.
 *
 * Where it cannot be started, children are still ended by closing their input, which well-behaved ones heed.
 */
import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import { MARKER_VARIABLE } from './environment.js';
import { GUARD_SCRIPT } from './guard-script.js';

/** Milliseconds that children get to end by themselves when we are gone. */
const GRACE_MS = 2000;

export interface GuardEntry {
  /** The child runs; `started` as in `tree.ts`. */
  started(pid: number, started: number): void;
  /** The child and all that belonged to it are gone. */
  release(): void;
}

/** Marker to the lines that name it: a guard that was lost is told again. */
const entries = new Map<string, string>();
/** The input of the guard that runs now. */
let guard: Writable | undefined;

/** Guards what carries `marker` from now on. Per process, like the danger it is for; never throws. */
export function acquireGuard(marker: string): GuardEntry {
  tell(marker, `+ ${marker}\n`);
  return {
    started: (pid, started) => tell(marker, `= ${marker} ${pid} ${started}\n`),
    release: () => {
      if (!entries.delete(marker) || guard === undefined) return;
      guard.write(`- ${marker}\n`);
      if (entries.size > 0) return;
      guard.end();
      guard = undefined;
    },
  };
}

function tell(marker: string, line: string): void {
  entries.set(marker, line);
  if (guard === undefined) guard = startGuard();
  else guard.write(line);
}

function startGuard(): Writable | undefined {
  let child: ReturnType<typeof launch>;
  try {
    child = launch();
  } catch {
    return undefined;
  }
  const input = child.stdin;
  child.on('error', () => {});
  input.on('error', () => {});
  // One that was lost (out of memory, say) is replaced when the next child starts.
  child.once('exit', () => {
    if (guard === input) guard = undefined;
  });
  // It must not keep us alive: that it outlives us is its purpose.
  child.unref();
  if (input instanceof Socket) input.unref();
  for (const line of entries.values()) input.write(line);
  return input;
}

function launch() {
  return spawn(process.execPath, ['-e', GUARD_SCRIPT, String(GRACE_MS), MARKER_VARIABLE], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    env: {},
    cwd: '/',
  });
}
