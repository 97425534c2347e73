/** The processes that this one started, and those that they started. */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';

/** Sends `signal` to all that descend from this process. They are listed first: a killed parent hides its children. */
export function signalDescendants(signal: NodeJS.Signals): void {
  for (const pid of descendants()) {
    try {
      process.kill(pid, signal);
    } catch {
      // Gone already.
    }
  }
}

function descendants(): number[] {
  const parents = existsSync('/proc/self/stat') ? fromProc() : fromPs();
  const found: number[] = [];
  const add = (parent: number): void => {
    for (const [pid, its] of parents) {
      if (its !== parent || found.includes(pid)) continue;
      found.push(pid);
      add(pid);
    }
  };
  add(process.pid);
  return found;
}

function fromProc(): [pid: number, parent: number][] {
  return readdirSync('/proc').flatMap((name): [number, number][] => {
    if (!/^\d+$/.test(name)) return [];
    try {
      // proc(5): the name in parentheses may hold anything, so the fields are counted after it.
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
      return [[Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])]];
    } catch {
      return [];
    }
  });
}

function fromPs(): [pid: number, parent: number][] {
  try {
    const listing = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8', timeout: 5_000 });
    return listing.split('\n').flatMap((line): [number, number][] => {
      const [pid, parent] = line.trim().split(/\s+/).map(Number);
      return pid === undefined || parent === undefined ? [] : [[pid, parent]];
    });
  } catch {
    return [];
  }
}
