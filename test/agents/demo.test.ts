/** `npm start` for real: OpenCode, a server, a worker and a client, and nothing left of them afterwards. */
import { execFileSync } from 'node:child_process';
import { afterAll, expect, test } from 'vitest';
import { inOrder, removeScratches, start } from '../cli/command.js';

const TIMEOUT = 240_000;
const NOTHING = { processes: [], files: [] };
/** From util-linux: runs a command at a terminal of its own. */
const hasScript = ((): boolean => {
  try {
    return execFileSync('script', ['--version'], { encoding: 'utf8' }).includes('util-linux');
  } catch {
    return false;
  }
})();

afterAll(removeScratches);

test(
  'npm start runs a real agent from nothing to its outcome, says yes by itself without a terminal, and is gone',
  async () => {
    const demo = start([], { command: ['npm', 'start', '--silent'], env: { HOLDFAST_WORKFLOW_BUNDLE: '' } });
    const { code, stdout, stderr } = await demo.ended;
    inOrder(stdout, [
      'Starting what an execution needs',
      /started a Temporal dev server on 127\.0\.0\.1:\d+, .*UI http:\/\/127\.0\.0\.1:\d+/,
      'Model: a script',
      'Worker: this process, with OpenCode',
      'Submitting an execution',
      /exec_[a-z2-7]{26} is a workflow/,
      'Its log, as it grows',
      /\n +1 +run\.queued/,
      /\n +2 +run\.started/,
      'Let me run a command',
      'action.required',
      'The agent asks for permission',
      '$ echo hello from the local model',
      'There is no terminal to ask at: the demo says yes by itself',
      /action\.responded +│ approved/,
      'completed',
      'Done. The tool said: hello from the local model',
      'run.completed',
      'Outcome',
      'succeeded',
      'is gone again',
    ]);
    expect([code, stderr]).toEqual([0, '']);
    expect(demo.left()).toEqual(NOTHING);
  },
  TIMEOUT,
);

test(
  '--keep stays up with its UI until Ctrl-C, which is its good end',
  async () => {
    const demo = start(['demo', '--keep']);
    await demo.says('Staying up until Ctrl-C');
    await demo.says(/Temporal UI: \S+\n/);
    const url = /Temporal UI: (\S+)/.exec(demo.stdout)?.[1] ?? '';
    expect((await fetch(url)).status).toBe(200);
    demo.kill('SIGINT');
    const { code } = await demo.ended;
    expect(code).toBe(0);
    expect(demo.left()).toEqual(NOTHING);
    await expect(fetch(url)).rejects.toThrow();
  },
  TIMEOUT,
);

test(
  'Ctrl-C while the agent works ends the agent too',
  async () => {
    const demo = start(['demo']);
    await demo.says('run.started');
    demo.kill('SIGINT');
    expect((await demo.ended).code).toBe(130);
    expect(demo.left()).toEqual(NOTHING);
  },
  TIMEOUT,
);

test.skipIf(!hasScript)(
  'at a terminal a person is asked, and a no is a no',
  async () => {
    const node = `${process.execPath} --import tsx cli/main.ts demo`;
    const demo = start([], {
      command: ['script', '--quiet', '--return', '--command', node, '/dev/null'],
      stdin: 'pipe',
    });
    await demo.says('[y/n]');
    demo.child.stdin?.write('perhaps\r');
    await demo.says(/\[y\/n\][\s\S]*\[y\/n\]/);
    demo.child.stdin?.write('n\r');
    const { code, stdout } = await demo.ended;
    inOrder(stdout, [/action\.responded +│ rejected/, /tool call +│ .* — failed/, 'run.completed', 'succeeded']);
    expect(stdout).not.toContain('Done. The tool said');
    expect(code).toBe(0);
    expect(demo.left()).toEqual(NOTHING);
  },
  TIMEOUT,
);
