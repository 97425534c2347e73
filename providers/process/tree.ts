/**
 * Which processes belong to a child of ours. A process group is not enough: a tool that runs in a session of its own
 * outlives a signal to the group (OpenCode's shell does). So a process is ours when it is the child or descends from
 * it, when it is in its group or session, when its environment carries the child's marker, or when it was ours before.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { MARKER_VARIABLE } from './environment.js';

export interface ProcessEntry {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** Clock ticks since boot. With the pid it names a process for good: pids are used again. 0 where it is unknown. */
  readonly started: number;
}

/** A child as it was spawned: leader of its own group and session. */
export interface Root {
  readonly pid: number;
  readonly started: number;
  readonly marker: string;
}

const PROC = '/proc';
const HAS_PROC = existsSync(`${PROC}/self/stat`);

/** When `pid` started, in clock ticks since boot; 0 when it is gone or there is no /proc. */
export function startedAt(pid: number): number {
  return (HAS_PROC ? readEntry(pid)?.started : undefined) ?? 0;
}

/** Follows one child's tree through its end. */
export class ProcessTree {
  readonly #root: Root;
  /** Pid to start time of all that was ever seen as ours: a process whose parent died is still found. */
  readonly #known = new Map<number, number>();

  constructor(root: Root) {
    this.#root = root;
  }

  /**
   * The members that are alive now, zombies excepted. Never holds our own process. Where processes cannot be listed at
   * all it is the group, as a negative number, while that has a member.
   */
  members(): number[] {
    const root = this.#root;
    const all = HAS_PROC ? listProc() : listPs();
    if (all === undefined) return groupAlive(root.pid) ? [-root.pid] : [];
    const children = new Map<number, ProcessEntry[]>();
    let reused = false;
    for (const entry of all) {
      const siblings = children.get(entry.parent);
      if (siblings === undefined) children.set(entry.parent, [entry]);
      else siblings.push(entry);
      if (entry.pid === root.pid && entry.started !== root.started) reused = true;
    }
    const found = new Map<number, ProcessEntry>();
    const add = (entry: ProcessEntry) => {
      if (entry.pid === process.pid || found.has(entry.pid)) return;
      found.set(entry.pid, entry);
      for (const child of children.get(entry.pid) ?? []) add(child);
    };
    for (const entry of all) {
      const byId = !reused && (entry.pid === root.pid || entry.group === root.pid || entry.session === root.pid);
      if (byId || this.#known.get(entry.pid) === entry.started || carries(entry, root)) add(entry);
    }
    for (const entry of found.values()) this.#known.set(entry.pid, entry.started);
    return [...found.keys()];
  }

  /** Sends `signal` to every member, once each (a second TERM means "now" to many). Returns whom it was meant for. */
  signal(signal: 'SIGTERM' | 'SIGKILL'): number[] {
    const members = this.members();
    // The group as one as well: nobody in it forks out of the way.
    if (signal === 'SIGKILL' && members.includes(this.#root.pid)) send(-this.#root.pid, signal);
    for (const pid of members) send(pid, signal);
    return members;
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone already, or not ours to end: the next listing tells which.
  }
}

/** Only what is as young as the child can carry its marker, which spares the rest of the host. */
function carries(entry: ProcessEntry, root: Root): boolean {
  if (!HAS_PROC || entry.started < root.started || entry.pid === process.pid) return false;
  try {
    return readFileSync(`${PROC}/${entry.pid}/environ`).includes(`${MARKER_VARIABLE}=${root.marker}`);
  } catch {
    return false;
  }
}

function listProc(): ProcessEntry[] {
  return readdirSync(PROC).flatMap((name) => {
    const pid = Number(name);
    return Number.isInteger(pid) ? (readEntry(pid) ?? []) : [];
  });
}

/** proc(5): the name stands in parentheses and may hold any character, so the fields are counted after the last one. */
function readEntry(pid: number): ProcessEntry | undefined {
  let stat: string;
  try {
    stat = readFileSync(`${PROC}/${pid}/stat`, 'latin1');
  } catch {
    return undefined;
  }
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const [state, parent, group, session] = fields;
  if (state === 'Z' || state === 'X') return undefined;
  return {
    pid,
    parent: Number(parent),
    group: Number(group),
    session: Number(session),
    started: Number(fields[19]),
  };
}

function groupAlive(group: number): boolean {
  try {
    process.kill(-group, 0);
    return true;
  } catch {
    return false;
  }
}

/** Systems without /proc: no markers and no sessions, so descendants and the group have to do. */
function listPs(): ProcessEntry[] | undefined {
  let listing: string;
  try {
    listing = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat='], { encoding: 'utf8', timeout: 5000 });
  } catch {
    return undefined;
  }
  return listing.split('\n').flatMap((line) => {
    const [pid, parent, group, state] = line.trim().split(/\s+/);
    if (pid === undefined || pid === '' || state === undefined || state.startsWith('Z')) return [];
    return [{ pid: Number(pid), parent: Number(parent), group: Number(group), session: 0, started: 0 }];
  });
}
