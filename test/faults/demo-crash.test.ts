/** `holdfast demo --crash` for real: its server, its worker processes, its kills. */
import { afterAll, expect, test } from 'vitest';
import { Built } from '../cli/built.js';
import { inOrder, removeScratches } from '../cli/command.js';

const TIMEOUT = 180_000;
const NOTHING = { processes: [], files: [] };

const holdfast = new Built();

afterAll(() => {
  holdfast.remove();
  removeScratches();
});

test(
  'the second act kills two workers, loses nothing, and leaves nothing behind',
  async () => {
    const demo = holdfast.start(['demo', '--crash']);
    const { code, stdout, stderr } = await demo.ended;
    expect(stderr).toBe('');
    inOrder(stdout, [
      'Starting a server and a worker process',
      /UI http:\/\/127\.0\.0\.1:\d+/,
      /Worker: process (\d+)/,
      'Submitting an execution',
      /\b1 +run\.queued/,
      /\b2 +run\.started/,
      'Step 1 of 5',
      'Step 3 of',
      'First kill',
      /kill -9 \d+/,
      /Worker: process \d+/,
      /runtime\.recovered +│ goes on from sequence \d+/,
      'Step 5 of 5',
      'action.required',
      'Second kill',
      /kill -9 \d+/,
      'was accepted',
      /Worker: process \d+/,
      'action.responded',
      'run.completed',
      'What was lost',
      /✓ one iterator saw the sequence 1…\d+/,
      '✓ the execution succeeded',
      'is gone again',
    ]);
    expect(stdout).not.toContain('✗');
    expect(code).toBe(0);
    expect(new Set(stdout.match(/Worker: process \d+/g)).size).toBe(3);
    expect(demo.left()).toEqual(NOTHING);
  },
  TIMEOUT,
);

test(
  'SIGTERM and Ctrl-C in the middle of it end everything within seconds; twice, at once',
  async () => {
    const [once, twice] = [holdfast.start(['demo', '--crash']), holdfast.start(['demo', '--crash'])];
    for (const demo of [once, twice]) await demo.says('run.started');
    const from = Date.now();
    once.kill('SIGTERM');
    twice.kill('SIGINT');
    await new Promise((resolve) => setTimeout(resolve, 400));
    twice.kill('SIGINT');
    const ended = await Promise.all([once.ended, twice.ended]);
    expect(ended.map(({ code }) => code)).toEqual([143, 130]);
    expect(once.stdout).toContain('Ctrl-C again ends everything at once');
    expect(once.stderr).toBe('');
    expect(Date.now() - from).toBeLessThan(20_000);
    await expect.poll(() => [once.left(), twice.left()]).toEqual([NOTHING, NOTHING]);
  },
  TIMEOUT,
);

test(
  'a reader that goes away, as `| head -1` does, ends it quietly',
  async () => {
    const demo = holdfast.start(['demo', '--crash']);
    await demo.says('Worker: process');
    demo.child.stdout?.destroy();
    const { code, stderr } = await demo.ended;
    expect([code, stderr]).toEqual([129, '']);
    expect(demo.left()).toEqual(NOTHING);
  },
  TIMEOUT,
);
