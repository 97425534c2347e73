/** The command as a person uses it, at a terminal of its own, against what `holdfast dev` brings up. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { HoldfastClient } from '../../client/client.js';
import { guard } from '../../dev/guard.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import type { Execution } from '../../protocol/execution.js';
import { Built, records } from './built.js';
import { type Running, removeScratches } from './command.js';

const TIMEOUT = 120_000;
const ENTER = '\r';
const CTRL_C = '\u0003';
const DOWN = '\u001b[B';

let holdfast: Built;
let dev: Running;
let client: HoldfastClient;

beforeAll(async () => {
  holdfast = new Built();
  dev = holdfast.start(['dev', '--port', '0', '--ui-port', '0', '--gateway-port', '0', '--json']);
  // Nothing is left of it when these tests are stopped by force.
  guard(dev.child);
  await dev.says('"ready"');
  const [ready] = records<{ address: string }>(dev.stdout);
  holdfast.env.TEMPORAL_ADDRESS = ready?.address;
  client = await HoldfastClient.connect({ address: ready?.address ?? '' });
}, TIMEOUT);

afterAll(async () => {
  await client?.close();
  // As when the window is closed in which it runs; an interrupt is tried elsewhere.
  dev?.kill('SIGHUP');
  const ended = await dev?.ended;
  holdfast?.remove();
  const left = dev?.left();
  removeScratches();
  expect([ended?.code, left]).toEqual([0, { processes: [], files: [] }]);
}, TIMEOUT);

const script = (...steps: object[]): string[] => ['--provider-config', JSON.stringify({ steps })];
const idOn = (text: string): string => /exec_[a-z2-7]{26}/.exec(text)?.[0] ?? '';

/** An execution that asks, started from here. */
async function asking(step: object): Promise<string> {
  const { id: conversationId } = await client.createConversation();
  const config = JSON.parse(JSON.stringify({ steps: [step], suspend: true }));
  const { execution } = await client.startExecution({ conversationId, providerId: 'scripted', input: 'go', config });
  for await (const event of client.events(execution.id)) if (event.type === 'action.required') break;
  return execution.id;
}

describe('run at a terminal', () => {
  test(
    'shows what happens, asks in place, and ends as the execution does: approved 0, rejected by a stray Enter 0',
    async () => {
      const steps = script({ say: 'Looking. ' }, { approve: { title: 'Delete\u001b[2J it?\u202e' } });
      const [yes, no] = [holdfast.atTerminal(['run', 'go', ...steps]), holdfast.atTerminal(['run', 'go', ...steps])];
      for (const each of [yes, no]) await each.shows(/It asks for permission[\s\S]*│ Delete it\?[\s\S]*May it\?/);
      expect(yes.screen).toMatch(/text +│ Looking\./);
      expect(yes.running.stdout.includes('\u001b[1m')).toBe(true);
      // What an agent wrote cannot clear the screen or turn it around.
      for (const foul of ['Delete\u001b', '\u202e']) expect(yes.running.stdout.includes(foul)).toBe(false);
      yes.type('y');
      no.type(ENTER);
      const [approved, rejected] = await Promise.all([yes.ended, no.ended]);
      expect([approved.code, rejected.code]).toEqual([0, 0]);
      expect(yes.screen).toMatch(/action\.responded +│ approved[\s\S]*succeeded after [\d.]+ s/);
      expect(no.screen).toMatch(/action\.responded +│ rejected[\s\S]*text +│ rejected/);
    },
    TIMEOUT,
  );

  test(
    'offers the options that an approval has, and takes a text for an input',
    async () => {
      const options = [
        { id: 'a', name: 'Allow once', kind: 'allow_once' },
        { id: 'b', name: 'Allow always', kind: 'allow_always' },
        { id: 'n', name: 'No', kind: 'reject_once' },
      ];
      const run = holdfast.atTerminal([
        'run',
        'go',
        ...script({ approve: { title: 'Which?', payload: { options } } }, { ask: { title: 'Your name?' } }),
      ]);
      await run.shows(/● No/);
      run.type(DOWN);
      await run.shows(/● Allow once/);
      run.type(DOWN);
      await run.shows(/● Allow always/);
      run.type(ENTER);
      await run.shows(/It asks you something[\s\S]*│ Your name\?[\s\S]*Your answer/);
      run.type(`Ada${ENTER}`);
      expect((await run.ended).code).toBe(0);
      const { finalOutput } = await client.getExecution(idOn(run.screen));
      expect(finalOutput).toBe('approvedAda');
    },
    TIMEOUT,
  );

  test(
    'takes the question back when it is answered elsewhere',
    async () => {
      const run = holdfast.atTerminal(['run', 'go', ...script({ approve: { title: 'ok?' } })]);
      await run.shows('May it?');
      const id = idOn(run.screen);
      const [action] = (await client.getExecution(id)).pendingActions;
      await client.respond(id, action?.id ?? '', { approved: true });
      expect((await run.ended).code).toBe(0);
      expect(run.screen).toContain('answered elsewhere');
    },
    TIMEOUT,
  );

  test(
    'Ctrl-C cancels and waits for the confirmation: exit code 3, also out of a question; twice leaves it to itself',
    async () => {
      const plain = holdfast.atTerminal(['run', 'go', ...script({ say: 'Working.' }, { hang: true })]);
      const asked = holdfast.atTerminal(['run', 'go', ...script({ approve: { title: 'ok?' } })]);
      const twice = holdfast.atTerminal([
        'run',
        'go',
        ...script({ ignoreCancel: true }, { say: 'Deaf.' }, { hang: true }),
      ]);
      await Promise.all([plain.shows('Working.'), asked.shows('May it?'), twice.shows('Deaf.')]);
      for (const each of [plain, asked, twice]) each.type(CTRL_C);
      await twice.shows('Ctrl-C again leaves it to itself');
      // Within the time in which npx would double it, a second one would be the same.
      await new Promise((resolve) => setTimeout(resolve, 400));
      twice.type(CTRL_C);
      const codes = (await Promise.all([plain.ended, asked.ended, twice.ended])).map(({ code }) => code);
      expect(codes).toEqual([3, 3, 130]);
      for (const each of [plain, asked]) {
        expect(each.screen).toMatch(/run\.cancelled +│ \w+[\s\S]*cancelled after/);
        expect((await client.getExecution(idOn(each.screen))).state).toBe('cancelled');
      }
      expect(twice.screen).toMatch(/Left\. exec_\w+ is being cancelled: holdfast watch exec_\w+ --after \d+/);
    },
    TIMEOUT,
  );

  test(
    'a window that is closed leaves it to itself; watch goes on from where it was',
    async () => {
      const run = holdfast.atTerminal([
        'run',
        'go',
        ...script({ say: 'One.' }, { ask: { title: 'And?' } }, { say: 'Two.' }),
      ]);
      await run.shows('Your answer');
      run.close();
      await run.ended;
      const id = idOn(run.screen);
      expect((await client.getExecution(id)).state).toBe('awaiting_input');
      const watch = holdfast.atTerminal(['watch', id, '--after', '3', '--ask']);
      await watch.shows('Your answer');
      expect(watch.screen).not.toContain('One.');
      watch.type(`so${ENTER}`);
      expect((await watch.ended).code).toBe(0);
      expect(watch.screen).toMatch(/│ (so)?Two\./);
    },
    TIMEOUT,
  );
});

test(
  'what waits is listed, shown with its answer, and answered from another terminal',
  async () => {
    const [first, second, third] = await Promise.all([
      asking({ approve: { title: 'First?' } }),
      asking({ approve: { title: 'Second?' } }),
      asking({ ask: { title: 'Third?' } }),
    ]);
    await expect
      .poll(async () => (await client.listPendingActions()).actions.length, { timeout: 20_000 })
      .toBeGreaterThanOrEqual(3);
    const [inbox, ls, show] = await Promise.all([
      holdfast.run(['inbox']),
      holdfast.run(['ls', '--state', 'awaiting_approval', '--json']),
      holdfast.run(['show', first]),
    ]);
    for (const part of [first, second, third, 'First?', 'Third?', 'approval', 'input'])
      expect(inbox.stdout).toContain(part);
    expect(records<Execution>(ls.stdout).map(({ id }) => id)).toEqual(expect.arrayContaining([first, second]));
    const [asked] = (await client.getExecution(first)).pendingActions;
    // What it says to type answers this action, not whatever is asked by then.
    expect(show.stdout).toMatch(/state +awaiting_approval\n[\s\S]*│ First\?\nanswer: /);
    expect(show.stdout).toContain(`holdfast approve ${first} ${asked?.id}, or holdfast reject ${first} ${asked?.id}\n`);

    const [yes, no, said, late] = await Promise.all([
      holdfast.run(['approve', first, asked?.id ?? '']),
      holdfast.run(['reject', second, '--json']),
      holdfast.run(['answer', third, '--value', '{"n":1}']),
      holdfast.run(['answer', third]),
    ]);
    expect([yes.code, no.code, said.code, late.code]).toEqual([0, 0, 0, 2]);
    expect(yes.stdout).toMatch(/^approved: act_\w+ of exec_\w+\n│ First\?\n$/);
    // With what was read of the action that is open, so that it answers that one.
    const expectedDigest = asked?.digest;
    expect(expectedDigest).toMatch(/^[0-9a-f]{64}$/);
    expect(records(no.stdout)).toMatchObject([{ executionId: second, approved: false, expectedDigest }]);
    // Nobody is there to ask: it says so, with the flags that help, and does not hang.
    expect(late.stderr).toMatch(
      /^holdfast: VALIDATION_ERROR: there is no terminal to ask at: give the answer by --text, --value/,
    );
    const ended = await Promise.all([first, second, third].map((id) => client.waitForTerminal(id)));
    expect(ended.map(({ finalOutput }) => finalOutput)).toEqual(['approved', 'rejected', '{"n":1}']);
    const again = await holdfast.run(['approve', first]);
    expect([again.code, again.stderr]).toEqual([
      1,
      expect.stringMatching(/^holdfast: INVALID_STATE: exec_\w+ asks nothing now: it is succeeded\n$/),
    ]);
  },
  TIMEOUT,
);

describe('without a terminal', () => {
  test(
    'a question ends run with exit code 4, says how to answer and go on, and eats no input; --json keeps what was said',
    async () => {
      const title = 'ok\u001b[2J?\u009b2J\u202e\u2028';
      const run = holdfast.start(['run', 'go', '--json', ...script({ approve: { title } })], { stdin: 'pipe' });
      run.child.stdin?.write('not for it\n');
      const { code, stdout, stderr } = await run.ended;
      expect(code).toBe(4);
      const events = records<HoldfastEvent>(stdout);
      expect(events.map(({ type }) => type)).toEqual(['run.queued', 'run.started', 'action.required']);
      expect(events.at(-1)?.data).toMatchObject({ title });
      // Whole, and yet harmless to a terminal that shows it.
      for (const said of [stdout, stderr]) expect(said).not.toMatch(/[^\P{Cc}\n]|[\u202e\u2028]/u);
      expect(stderr).toMatch(
        /waits for an answer[\s\S]*holdfast approve exec_\w+[\s\S]*holdfast watch exec_\w+ --after 3\n$/,
      );
      const cancelled = await holdfast.run(['cancel', idOn(stderr), '--reason', 'enough', '--json']);
      expect(cancelled.code).toBe(0);
      expect(records<Execution>(cancelled.stdout)).toMatchObject([{ state: 'cancelled' }]);
    },
    TIMEOUT,
  );

  test(
    'the exit code says how it ended: 0, 1, 3; flags answer for who is not there',
    async () => {
      const ask = script({ approve: { title: 'ok?' } });
      const [approved, rejected, failed, quiet, piped, detached] = await Promise.all([
        holdfast.run(['run', 'go', '--approve', '--quiet', ...ask]),
        holdfast.run(['run', 'go', '--reject', '--quiet', ...ask]),
        holdfast.run(['run', 'go', ...script({ fail: 'no luck' })]),
        holdfast.run(['run', 'a\tb\nc', '--quiet']),
        (async () => {
          const run = holdfast.start(['run', '-', '--quiet'], { stdin: 'pipe' });
          run.child.stdin?.end('from a pipe');
          return await run.ended;
        })(),
        holdfast.run(['run', 'go', '--detach', ...script({ hang: true })]),
      ]);
      expect(approved).toMatchObject({ code: 0, stdout: 'approved\n' });
      expect(rejected).toMatchObject({ code: 0, stdout: 'rejected\n' });
      expect(failed.code).toBe(1);
      // Colours are for terminals.
      expect(failed.stdout.includes('\u001b')).toBe(false);
      expect(failed.stdout).toMatch(/run\.failed +│ PROVIDER_ERROR: no luck[\s\S]*failed after/);
      expect(quiet).toMatchObject({ code: 0, stdout: 'a\tb\nc\n' });
      expect(piped).toMatchObject({ code: 0, stdout: 'from a pipe\n' });
      expect(detached.stdout).toMatch(/^exec_\w+\n$/);
      const watch = holdfast.start(['watch', detached.stdout.trim(), '--json']);
      await watch.says('run.started');
      await client.cancel(detached.stdout.trim());
      expect((await watch.ended).code).toBe(3);
    },
    TIMEOUT,
  );

  test(
    '`| head -1` ends quickly and quietly; 2 MB come through a slow pipe whole',
    async () => {
      const flood = { flood: { events: 40, bytes: 50_000 } };
      const head = holdfast.start(['run', 'go', '--json', ...script(flood, { hang: true })]);
      await head.says('run.queued');
      head.child.stdout?.destroy();
      expect(await head.ended).toMatchObject({ code: 141, stderr: expect.stringMatching(/^exec_\w+ in conv_\w+\n$/) });
      const slow = holdfast.start(['run', 'go', '--json', ...script(flood)]);
      slow.child.stdout?.pause();
      await expect
        .poll(async () => (await client.listExecutions({ state: 'succeeded', limit: 1 })).executions.length)
        .toBe(1);
      const trickle = setInterval(() => {
        slow.child.stdout?.resume();
        setTimeout(() => slow.child.stdout?.pause(), 20);
      }, 30);
      const { code, stdout } = await slow.ended;
      clearInterval(trickle);
      expect(code).toBe(0);
      const events = records<HoldfastEvent>(stdout);
      expect(events.map(({ sequence }) => sequence)).toEqual(events.map((_, index) => index + 1));
      expect(stdout.length).toBeGreaterThan(2_000_000);
    },
    TIMEOUT,
  );
});

test(
  'providers and conversations are listed, and a conversation is made, used and closed',
  async () => {
    const [providers, json, created] = await Promise.all([
      holdfast.run(['providers']),
      holdfast.run(['providers', '--json']),
      holdfast.run(['conversations', 'create', '--metadata', '{"customer":"c-17"}']),
    ]);
    expect(providers.stdout).toMatch(/^scripted {2}Scripted [\d.]+, embedded\n {4}native: action\.approval/);
    expect(records(json.stdout)).toMatchObject([{ id: 'scripted' }]);
    const id = created.stdout.trim();
    expect(id).toMatch(/^conv_\w+$/);
    await expect
      .poll(async () => (await client.listConversations({ limit: 1000 })).conversations.map((each) => each.id), {
        timeout: 20_000,
      })
      .toContain(id);
    const [listed, closed] = [
      await holdfast.run(['conversations']),
      await holdfast.run(['conversations', 'close', id]),
    ];
    expect(listed.stdout).toMatch(new RegExp(`${id} +open +\\d+s +\\{"customer":"c-17"\\}`));
    expect(closed).toMatchObject({ code: 0, stdout: `${id}: closed\n` });
    const refused = await holdfast.run(['run', 'go', '--conversation', id]);
    expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('INVALID_STATE')]);
  },
  TIMEOUT,
);

test(
  'errors say what to do next, and with --json in JSON',
  async () => {
    const [execution, text, provider] = await Promise.all([
      holdfast.run(['show', 'exec_none', '--json']),
      holdfast.run(['watch', 'exec_none']),
      holdfast.run(['run', 'go', '--provider', 'nobody']),
    ]);
    expect([execution.code, text.code, provider.code]).toEqual([1, 1, 1]);
    expect(JSON.parse(execution.stderr)).toMatchObject({
      code: 'NOT_FOUND',
      message: expect.stringContaining('holdfast ls'),
    });
    expect(text.stderr).toMatch(
      /^holdfast: NOT_FOUND: there is no execution exec_none; see those that there are: holdfast ls\n$/,
    );
    expect(provider.stderr).toMatch(/PROVIDER_NOT_FOUND: .*scripted.*; see: holdfast providers\n$/);
  },
  TIMEOUT,
);
