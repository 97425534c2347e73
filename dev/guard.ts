/** Ends a child process when this process ends, however that happens. */
import { type ChildProcess, spawn } from 'node:child_process';

/**
 * A shell that waits for the end of its input. The other end of that pipe is held by this process alone, so it closes
 * even on SIGKILL; then the guarded process is asked to end, and after ten seconds made to.
 */
const SCRIPT = `
read -r _
kill -TERM "$1" 2>/dev/null || exit 0
for _ in 1 2 3 4 5 6 7 8 9 10; do
  sleep 1
  kill -0 "$1" 2>/dev/null || exit 0
done
kill -KILL "$1" 2>/dev/null
`;

/**
 * Guards `child` until it exits. The guard is in a process group of its own: Ctrl-C in a terminal does not reach it.
 *
 * Where there is no `/bin/sh` the child is not guarded.
 */
export function guard(child: ChildProcess): void {
  const { pid } = child;
  if (pid === undefined || process.platform === 'win32') return;
  const shell = spawn('/bin/sh', ['-c', SCRIPT, 'guard', String(pid)], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
    env: { PATH: '/usr/bin:/bin' },
  });
  shell.on('error', () => {});
  shell.stdin.on('error', () => {});
  shell.unref();
  child.once('exit', () => shell.kill('SIGKILL'));
}
