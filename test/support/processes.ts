/** Finding processes of a test by a word in their command line or environment, on Linux. */
import { readdirSync, readFileSync } from 'node:fs';

/** Pids whose command line or environment holds `word`; zombies and this process excepted. */
export function processesWith(word: string): number[] {
  return readdirSync('/proc').flatMap((name) => {
    const pid = Number(name);
    if (!Number.isInteger(pid) || pid === process.pid || isZombie(pid)) return [];
    return read(pid, 'cmdline').includes(word) || read(pid, 'environ').includes(word) ? [pid] : [];
  });
}

export function isAlive(pid: number): boolean {
  return read(pid, 'stat') !== '' && !isZombie(pid);
}

function isZombie(pid: number): boolean {
  const stat = read(pid, 'stat');
  return /^ [ZX]/.test(stat.slice(stat.lastIndexOf(')') + 1));
}

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
}

/** The parent's pid, or 0 when the process is gone. */
export function parentOf(pid: number): number {
  const stat = read(pid, 'stat');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1] ?? 0);
}
