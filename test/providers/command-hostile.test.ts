import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { commandProvider } from '../../providers/command/command.js';
import { Cluster, types } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';
import { eventually } from '../support/provider-context.js';
import { Attempt } from '../support/scripted-context.js';
import { script } from './command-rig.js';

const text = { output: 'text' } as const;
const forever = 'setInterval(() => {}, 1000);';

describe('noise on standard output', () => {
  test('is passed over, whatever it is', async () => {
    const { provider } = script(`
      const out = (line) => process.stdout.write(line);
      out('42\\nnull\\n[1]\\n\\n\\r\\n{"level":"info","id":1}\\nplain text\\n{"type":"text"}\\n{"type":"nonsense"}\\n');
      out('{"type":"text","text":"a"}\\r\\n\\u001b[2K\\u001b[1G{"type":"text","text":"b"}\\n');
      out(('x'.repeat(1023) + '\\n').repeat(10240));
      out('{"type":"text","text":"c"}');`);
    const one = new Attempt(provider);
    await one.result;
    expect(one.text).toBe('abc');
  });

  test('an endless line ends it, and names the limit', async () => {
    const { provider, left } = script(
      `const b = Buffer.alloc(65536, 97); const more = () => { while (process.stdout.write(b)); process.stdout.once('drain', more); }; more();`,
      { maxLineBytes: 4_000_000 },
    );
    await expect(new Attempt(provider).result).rejects.toThrow(/a line of more than 4000000 bytes/);
    expect(left()).toEqual([]);
  });

  test('an honest line of 12 MB comes whole', async () => {
    const { provider } = script(`say({ type: 'text', text: 'x'.repeat(12_000_000) })`);
    const one = new Attempt(provider);
    await one.result;
    expect(one.text.length).toBe(12_000_000);
  });
});

describe('dead ends', () => {
  test('8 MB to a child that exits with 7 fails, naming the exit and the end of its standard error', async () => {
    const { provider } = script(
      `process.stderr.write('x'.repeat(1_000_000) + '\\n\\u001b[31mdisk is full\\n'); process.exitCode = 7;`,
      {
        command: text,
      },
    );
    const error = await new Attempt(provider, { input: 'y'.repeat(8_000_000) }).result.catch((caught: Error) => caught);
    expect(error).toMatchObject({ code: 'PROVIDER_ERROR' });
    const { message } = error as Error;
    expect(message).toMatch(/^command "it" exited with code 7\. The end of its standard error:\ndisk is full$/);
  });

  test('a command that is not there, or was killed', async () => {
    const missing = commandProvider({ commands: { it: { command: 'no-such-thing', cwd: tmpdir(), output: 'text' } } });
    await expect(new Attempt(missing).result).rejects.toThrow(/could not be started: ENOENT .*no PATH/s);
    const { provider } = script(`process.kill(process.pid, 'SIGKILL')`);
    await expect(new Attempt(provider).result).rejects.toThrow('was killed by SIGKILL');
  });

  test('one that closes its output and runs on', async () => {
    const { provider, left } = script(`require('node:fs').closeSync(1); ${forever}`, { exitGraceMs: 300 });
    await expect(new Attempt(provider).result).rejects.toThrow(/closed its standard output and ran on/);
    expect(left()).toEqual([]);
  });

  test('one that takes too long', async () => {
    const { provider, left } = script(forever, { timeoutMs: 500 });
    await expect(new Attempt(provider).result).rejects.toThrow('took longer than 500 ms (timeoutMs)');
    expect(left()).toEqual([]);
  });

  test('a grandchild that holds the pipe: the output is complete, and it is gone', async () => {
    const { provider, left } = script(
      `require('node:child_process').spawn(process.execPath, ['-e', '${forever}'], { stdio: ['ignore', 'inherit', 'inherit'], detached: true });
       say({ type: 'text', text: 'last words' }); setTimeout(() => process.exit(0), 300);`,
    );
    const one = new Attempt(provider);
    await one.result;
    expect(one.text).toBe('last words');
    expect(left()).toEqual([]);
  });
});

describe('under a real worker', () => {
  let cluster: Cluster;
  const commands = [
    script(`say({ type: 'text', text: 'up' }); process.on('SIGTERM', () => {}); ${forever}`, { id: 'deaf' }),
    script(
      `lines().on('line', (line) => {
         const { type, approved } = JSON.parse(line);
         if (type === 'prompt') return say({ type: 'approve', id: 'a', title: 'Publish?' });
         say({ type: 'artifact', name: 'page', mediaType: 'text/html' });
         say({ type: 'result', text: approved ? 'published' : 'kept' });
         process.exit(0);
       });`,
      { id: 'publisher', command: { input: 'ndjson', output: 'ndjson' } },
    ),
  ] as const;
  beforeAll(async () => {
    cluster = await Cluster.start();
    await cluster.worker({ providers: commands.map(({ provider }) => provider), pool: { stopGraceMs: 10_000 } });
  });
  afterAll(async () => {
    await cluster.stopCompared();
  });

  test('an approval, an artifact and a result', async () => {
    const { id } = await cluster.start({ providerId: 'publisher' });
    const { id: actionId } = await cluster.action(id);
    await cluster.client.respond(id, actionId, { approved: true });
    const events = await cluster.log(id);
    expectWhole(events);
    expect(types(events)).toContain('artifact.created');
    expect(await cluster.client.getExecution(id)).toMatchObject({ state: 'succeeded', finalOutput: 'published' });
    expect(commands[1].left()).toEqual([]);
  });

  test('a cancel ends one that ignores TERM, by force', async () => {
    const { id } = await cluster.start({ providerId: 'deaf' });
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    expect(commands[0].left()).toHaveLength(1);
    await cluster.client.cancel(id);
    const events = await cluster.log(id);
    expect(events.at(-1)).toMatchObject({ type: 'run.cancelled', data: { confirmation: 'forced' } });
    await eventually(() => commands[0].left().length === 0);
  });
});
