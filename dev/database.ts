/**
 * Keeps two dev servers off one database file: each would believe that it owns the state.
 *
 * The process id of the server stands in a file beside the database. A server that was killed leaves it behind; it
 * counts only while a process of that id has the database's name among its arguments.
 */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

/** A server whose owner was killed is on its way out; this is longer than that takes. */
const WAIT_MS = 15_000;

/**
 * Waits until no server has the file open.
 *
 * @returns writes down the process id of the server that opens it now
 * @throws Error with the process id of a server that still has it open after `waitMs` (default 15,000)
 */
export async function claimDatabase(dbFile: string, waitMs = WAIT_MS): Promise<(pid: number) => Promise<void>> {
  const pidFile = `${dbFile}.pid`;
  const deadline = Date.now() + waitMs;
  for (;;) {
    const pid = await readPid(pidFile);
    if (pid === undefined || !(await hasArgument(pid, dbFile))) break;
    if (Date.now() > deadline) {
      throw new Error(`${dbFile} is in use by another Temporal dev server (process ${pid}); stop that one first`);
    }
    await sleep(200);
  }
  return (pid) => writeFile(pidFile, `${pid}\n`);
}

async function readPid(pidFile: string): Promise<number | undefined> {
  const text = await readFile(pidFile, 'utf8').catch(() => '');
  const pid = Number.parseInt(text, 10);
  return Number.isInteger(pid) && pid > 1 ? pid : undefined;
}

async function hasArgument(pid: number, argument: string): Promise<boolean> {
  try {
    const { stdout } = await promisify(execFile)('ps', ['-ww', '-o', 'args=', '-p', String(pid)]);
    return stdout.includes(argument);
  } catch {
    return false;
  }
}
