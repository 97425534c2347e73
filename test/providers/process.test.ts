/** Hygiene of child processes, without any protocol on top. */
import { describe, expect, test } from 'vitest';
import { childEnvironment, newMarker, secretValues } from '../../providers/process/environment.js';
import { describeExit } from '../../providers/process/exit.js';
import { LineSplitter, LineTooLongError } from '../../providers/process/lines.js';
import { Redactor, TextGate } from '../../providers/process/redact.js';
import { type RunningProcess, startProcess } from '../../providers/process/spawn.js';
import { cleanText, StderrTail } from '../../providers/process/stderr-tail.js';
import { ProcessTree, startedAt } from '../../providers/process/tree.js';
import { isAlive } from '../support/processes.js';
import { eventually } from '../support/provider-context.js';

const node = (script: string, env: Record<string, string> = {}): RunningProcess =>
  startProcess({ command: process.execPath, args: ['-e', script], cwd: '/', env });

/** What a process prints until the first line end. */
function firstLine({ stdout }: RunningProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString();
      if (text.includes('\n')) resolve(text.slice(0, text.indexOf('\n')));
    });
    stdout.on('close', () => reject(new Error(`ended without a line: ${text}`)));
  });
}

describe('an environment', () => {
  test('holds what is listed, and a marker that is never the same', () => {
    const ours = { PATH: '/bin', TEMPORAL_API_KEY: 'canary', DATABASE_URL: 'canary', NODE_OPTIONS: 'canary' };
    const listed = { env: { A: '1', B: '1' }, passEnv: ['PATH', 'NOT_SET', 'B'], secretEnv: { B: '2' } };
    expect(childEnvironment(listed, 'm', { ...ours, B: '0' })).toEqual({
      PATH: '/bin',
      A: '1',
      B: '2',
      HOLDFAST_PROCESS: 'm',
    });
    expect(childEnvironment({}, 'm', ours)).toEqual({ HOLDFAST_PROCESS: 'm' });
    expect(newMarker()).not.toBe(newMarker());
  });

  test('has secrets in what is called so, and in what it hands on by a name that says so', () => {
    const ours = { PATH: '/usr/local/bin', OPENAI_API_KEY: 'sk-canary', GH_TOKEN: 'gh-canary', TOKEN_URL: 'short' };
    const passEnv = [...Object.keys(ours), 'NOT_SET_PASSWORD', 'KEYBOARD'];
    const all = secretValues({ passEnv, secretEnv: { X: 'x-canary' } }, { ...ours, KEYBOARD: 'qwertz-layout' });
    expect(all).toEqual(['x-canary', 'sk-canary', 'gh-canary']);
    expect(secretValues({}, ours)).toEqual([]);
  });
});

describe('an exit', () => {
  test.each([
    ['process.exit(7)', 'exited with code 7'],
    ['process.kill(process.pid, "SIGKILL")', 'was killed by SIGKILL'],
  ])('%s is described', async (script, words) => {
    const child = node(script);
    expect(describeExit(await child.exited)).toBe(words);
    await child.stop();
  });

  test('of what never started is described, and there is nothing to stop', async () => {
    const child = startProcess({ command: '/nowhere/at/all', cwd: '/' });
    expect(describeExit(await child.exited)).toBe('could not be started: ENOENT (spawn /nowhere/at/all ENOENT)');
    await expect(child.stop()).resolves.toEqual({ forced: false, left: [] });
    const refused = startProcess({ command: 'a\0b', cwd: '/' });
    expect(describeExit(await refused.exited)).toMatch(/^could not be started: /);
  });
});

describe('writing', () => {
  test('to a child that is gone resolves, and is reported', async () => {
    const child = node('process.exit(7)');
    const written = child.write('x'.repeat(8_000_000));
    await expect(child.inputBroken).resolves.toMatchObject({ code: expect.stringMatching(/EPIPE|ECONNRESET/) });
    await written;
    await child.write('more');
    expect(await child.exited).toEqual({ kind: 'code', code: 7 });
    await child.stop();
  });
});

describe('standard error', () => {
  test('is drained, and its end is kept clean and whole', async () => {
    const child = node(`
      process.stderr.write('first line\\n' + 'e'.repeat(3_000_000) + '\\n');
      process.stderr.write('\\u001b[1;31mError:\\u001b[0m \\u001b]8;;http://x\\u0007link\\u001b]8;;\\u0007 b\\0ad\\r\\n\\tat x\\n', () => process.exit(1));
    `);
    await child.exited;
    await child.stop();
    expect(child.stderr()).toBe('Error: link bad\n\tat x');
  });

  test('keeps its last bytes in pieces of any size', () => {
    const tail = new StderrTail(10);
    for (const piece of ['aaaa\n', 'b', 'bb\n', 'cccc\n']) tail.push(Buffer.from(piece));
    expect(tail.text()).toBe('bbb\ncccc');
    tail.push(Buffer.from('x'.repeat(100)));
    expect(tail.text()).toBe('x'.repeat(10));
  });

  test('shows no control character but line ends and tabs', () => {
    const all = Array.from({ length: 160 }, (_, code) => String.fromCharCode(code)).join('');
    expect(/(?![\n\t])\p{Cc}/u.test(cleanText(all))).toBe(false);
  });
});

describe('lines', () => {
  test('are split wherever the reads end', () => {
    const text = Buffer.from('é\n\nzwei\nlast');
    for (const size of [1, 2, 3, 100]) {
      const lines = new LineSplitter(100);
      const found: string[] = [];
      for (let at = 0; at < text.length; at += size)
        for (const line of lines.push(text.subarray(at, at + size))) found.push(line.toString());
      expect([...found, lines.end()?.toString()]).toEqual(['é', '', 'zwei', 'last']);
    }
  });

  test('have a limit, to the byte', () => {
    const lines = new LineSplitter(4);
    expect([...lines.push(Buffer.from('1234\n12'))].map(String)).toEqual(['1234']);
    expect(() => [...lines.push(Buffer.from('345'))]).toThrow(LineTooLongError);
  });
});

describe('a secret', () => {
  const redactor = new Redactor(['hunter22', 'line1\nline2', 'hunter22-longer', '']);

  test('goes from every string, as a key and inside JSON', () => {
    expect(redactor.data({ hunter22: ['a hunter22-longer b', 1, null, { x: '{"k":"line1\\nline2"}' }] })).toEqual({
      '[redacted]': ['a [redacted] b', 1, null, { x: '{"k":"[redacted]"}' }],
    });
    expect(redactor.text('nothing')).toBe('nothing');
  });

  test('goes from text in pieces of any size; all other text stays', () => {
    const text = 'hunt hunter hunter22 and hunter2 hunter22 👍 line1\nline2 end hunter2';
    for (let size = 1; size <= text.length; size++) {
      const gate = new TextGate(new Redactor(['hunter22', 'line1\nline2']));
      let shown = '';
      for (let at = 0; at < text.length; at += size) {
        const piece = gate.push(text.slice(at, at + size));
        expect(piece).not.toMatch(/[\ud800-\udbff]$/);
        shown += piece;
      }
      expect(shown + gate.flush()).toBe('hunt hunter [redacted] and hunter2 [redacted] 👍 [redacted] end hunter2');
    }
  });
});

describe('stopping', () => {
  /** Prints the pid of a child of the given kind, and then does as `then` says. */
  const withTool = (options: string, then: string) =>
    node(`
      const { spawn } = require('node:child_process');
      const tool = spawn('/bin/sh', ['-c', 'sleep 600 & sleep 600'], { stdio: 'ignore', ${options} });
      tool.unref();
      console.log(tool.pid);
      ${then}
    `);

  test('lets a child end by itself when its input closes', async () => {
    const child = node("process.stdin.on('end', () => process.exit(3)).resume(); console.log('up')");
    await firstLine(child);
    await expect(child.stop()).resolves.toEqual({ forced: false, left: [] });
    expect(await child.exited).toEqual({ kind: 'code', code: 3 });
  });

  test('lets a child read what it was sent', async () => {
    const child = node(
      "process.stdin.on('end', () => process.exit(3)).pause(); console.log('up'); setTimeout(() => process.stdin.resume(), 200)",
    );
    await firstLine(child);
    void child.write('x'.repeat(4_000_000));
    await expect(child.stop()).resolves.toEqual({ forced: false, left: [] });
  });

  test.each([
    ['in its session', '', 'setInterval(() => {}, 1000)'],
    ['in a session of their own', 'detached: true', 'setInterval(() => {}, 1000)'],
    ['without its environment', 'detached: true, env: {}', 'setInterval(() => {}, 1000)'],
    ['in its session, when it is gone', 'env: {}', 'process.exit(0)'],
    ['in a session of their own, when it is gone', 'detached: true', 'process.exit(0)'],
    [
      'without its environment, when it ends as asked',
      'detached: true, env: {}',
      "process.stdin.on('end', () => process.exit(0)).resume()",
    ],
    ['under one that ignores TERM', 'detached: true', "process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)"],
  ])('ends tools %s', async (_, options, then) => {
    const child = withTool(options, then);
    const tool = Number(await firstLine(child));
    if (then === 'process.exit(0)') await child.exited;
    expect(isAlive(tool)).toBe(true);
    const limits = { inputGraceMs: 100, termGraceMs: 500, killMs: 5000 };
    await expect(child.stop(limits)).resolves.toEqual({ forced: true, left: [] });
    expect(isAlive(tool)).toBe(false);
  });

  test('ends one that forks faster than it is listed', async () => {
    const child = startProcess({
      command: '/bin/sh',
      args: ['-c', 'trap "" TERM; echo up; while :; do sleep 600 & sleep 0.01; done'],
      cwd: '/',
      env: { PATH: '/usr/bin:/bin' },
    });
    await firstLine(child);
    const tree = new ProcessTree({ pid: child.pid ?? 0, started: startedAt(child.pid ?? 0), marker: 'none' });
    await eventually(() => tree.members().length > 5);
    await expect(child.stop({ inputGraceMs: 100, termGraceMs: 100, killMs: 5000 })).resolves.toEqual({
      forced: true,
      left: [],
    });
    expect(tree.members()).toEqual([]);
  });

  test('is done once, however often it is asked for', async () => {
    const child = node('setInterval(() => {}, 1000)');
    const stops = [child.stop({ inputGraceMs: 50, termGraceMs: 500, killMs: 5000 }), child.stop(), child.stop()];
    expect(await Promise.all(stops)).toEqual(Array.from({ length: 3 }, () => ({ forced: true, left: [] })));
  });

  test('never takes a process for ours that has only our pid', () => {
    const stranger = { pid: process.ppid, started: startedAt(process.ppid) + 1, marker: newMarker() };
    expect(new ProcessTree(stranger).members()).toEqual([]);
  });
});
