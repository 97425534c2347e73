/**
 * The guard's program, as text: it runs under plain `node -e`, whether we were compiled, bundled or run from source.
 *
 * Its input names what is alive, one line each: `+ <marker>`, `= <marker> <pid> <started>`, `- <marker>`. When that
 * input ends, what is still named lost its worker: their own input closed in the same moment, so they get `graceMs`
 * to end by themselves; then all that belongs to them (the rule of `tree.ts`) is killed until none is left.
 */
export const GUARD_SCRIPT = `
'use strict';
const fs = require('node:fs');
process.title = 'holdfast-guard';
const [graceMs, variable] = process.argv.slice(1);
const runs = new Map();
let rest = '';
process.stdin.setEncoding('utf8');
process.stdin.on('data', (text) => {
  const lines = (rest + text).split('\\n');
  rest = lines.pop();
  for (const line of lines) {
    const [what, marker, pid, started] = line.split(' ');
    if (what === '-') runs.delete(marker);
    else runs.set(marker, { pid: Number(pid ?? 0), started: Number(started ?? 0), known: new Map() });
  }
});
process.stdin.on('error', finish);
process.stdin.on('end', finish);

let finishing = false;
function finish() {
  if (finishing) return;
  finishing = true;
  const begin = Date.now();
  const round = () => {
    const members = [...runs].flatMap(([marker, run]) => find(marker, run));
    const waited = Date.now() - begin;
    if (members.length === 0 || waited > Number(graceMs) + 10000) process.exit(0);
    if (waited >= Number(graceMs)) for (const pid of members) kill(pid);
    setTimeout(round, 50);
  };
  round();
}

function kill(pid) {
  try { process.kill(pid, 'SIGKILL'); } catch {}
}

function find(marker, run) {
  let names;
  try { names = fs.readdirSync('/proc'); } catch { names = []; }
  if (names.length === 0) {
    if (run.pid === 0) return [];
    try { process.kill(-run.pid, 0); return [-run.pid]; } catch { return []; }
  }
  const all = names.filter((name) => /^[0-9]+$/.test(name)).flatMap((name) => {
    try {
      const stat = fs.readFileSync('/proc/' + name + '/stat', 'latin1');
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      if (fields[0] === 'Z' || fields[0] === 'X') return [];
      return [{ pid: Number(name), parent: Number(fields[1]), group: Number(fields[2]), session: Number(fields[3]), started: Number(fields[19]) }];
    } catch { return []; }
  });
  const reused = all.some((entry) => entry.pid === run.pid && entry.started !== run.started);
  const found = new Map();
  const add = (entry) => {
    if (entry.pid === process.pid || found.has(entry.pid)) return;
    found.set(entry.pid, entry.started);
    for (const child of all) if (child.parent === entry.pid) add(child);
  };
  for (const entry of all) {
    const byId = run.pid !== 0 && !reused && [entry.pid, entry.group, entry.session].includes(run.pid);
    if (byId || run.known.get(entry.pid) === entry.started || carries(entry.pid)) add(entry);
  }
  for (const [pid, started] of found) run.known.set(pid, started);
  return [...found.keys()];

  function carries(pid) {
    try { return fs.readFileSync('/proc/' + pid + '/environ').includes(variable + '=' + marker); } catch { return false; }
  }
}
`;
