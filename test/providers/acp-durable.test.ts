/** On a real server: a conversation with an agent outlives its worker, asks what its policy asks, and leaves no files. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { acpProvider } from '../../providers/acp/acp.js';
import { commandProvider } from '../../providers/command/command.js';
import { agentScript } from '../support/acp-agents.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';
import { gitRemote } from '../support/git-remote.js';
import { eventually } from '../support/provider-context.js';
import { scratchFolder } from '../support/scratch.js';

let cluster: Cluster;
const root = scratchFolder('holdfast-root-');
const remote = gitRemote({ 'README.md': 'one\n' });
const warnings: string[] = [];

function worker() {
  const node = (mode: string) => ({ command: process.execPath, args: [agentScript('polite'), mode] });
  const shared = {
    workspaces: { own: { kind: 'scratch' }, shop: { kind: 'git', remote: remote.path, ref: 'main' } },
    workspaceRoot: { path: root, sweepMs: 300 },
  } as const;
  return cluster.worker({
    providers: [
      acpProvider({
        ...shared,
        agents: { remembers: node('remembers'), asks: node('ask_each') },
        policy: [
          { name: 'tests', command: 'npm test', answer: 'allow' },
          { name: 'no pushes', command: 'git push', answer: 'deny' },
        ],
      }),
      commandProvider({
        ...shared,
        commands: {
          sh: { command: '/bin/sh', args: ['-e'], output: 'text', workspace: 'shop', passEnv: ['PATH'] },
          gone: { command: '/nowhere/program', output: 'text', cwd: '/nowhere' },
        },
        defaultCommand: 'sh',
      }),
    ],
    pool: PATIENT_POOL,
    log: (level, message) => {
      if (level === 'warn') warnings.push(message);
    },
  });
}

beforeAll(async () => {
  cluster = await Cluster.start();
});

afterAll(async () => {
  await cluster.stopCompared();
});

async function conversation() {
  const { id } = await cluster.client.createConversation();
  const start = (providerId: string, input: string, config: object = {}) =>
    cluster.start({ providerId, conversationId: id, input, config: config as never });
  const turn = async (providerId: string, input: string, config: object = {}) => {
    const started = await start(providerId, input, config);
    const ended = await cluster.client.waitForTerminal(started.id, { timeoutMs: 50_000 });
    return { ...ended, events: await cluster.log(started.id) };
  };
  return { id, start, turn };
}

describe('a conversation', () => {
  it('goes on after its worker was replaced, with its session and its files, which go when it is closed', async () => {
    const first = await worker();
    expect(warnings).toEqual([
      expect.stringMatching(/^commands\.gone\.command: \/nowhere\/program is not there/),
      expect.stringMatching(/^commands\.gone\.cwd: \/nowhere is not there/),
    ]);
    const { id, turn } = await conversation();
    const config = { agent: 'remembers', workspace: 'own' };
    expect((await turn('acp', 'one', config)).finalOutput).toBe('one');
    const shell = await conversation();
    expect((await shell.turn('command', 'echo two >> README.md; pwd')).finalOutput).toContain(shell.id);
    await first.shutdown({ drainMs: 0 });

    await worker();
    expect((await turn('acp', 'two', config)).finalOutput).toBe('one, two');
    const third = await turn('acp', 'three', config);
    expect(third).toMatchObject({ state: 'succeeded', finalOutput: 'one, two, three', usage: { costUsd: 0.25 } });
    expect(third.events.some(({ data }) => (data as { name?: string }).name === 'workspace.used')).toBe(true);
    const change = await shell.turn('command', 'cat README.md; echo three >> README.md');
    expect(change.finalOutput).toBe('one\ntwo\n');
    expect(await cluster.client.artifacts(change.id)).toMatchObject([
      { name: 'changes.patch', metadata: { insertions: 1, sinceBase: { insertions: 2 } } },
    ]);

    const folder = join(root, 'own', `default.${id}`);
    expect(existsSync(join(folder, 'files', 'sessions.json'))).toBe(true);
    await cluster.client.closeConversation(id);
    await eventually(() => !existsSync(folder), 30_000);
    expect(readFileSync(join(root, 'shop', `default.${shell.id}`, 'files', 'README.md'), 'utf8')).toContain('three');
  }, 120_000);

  it('is asked what no rule answers, and not again what was answered for all of it', async () => {
    const { start, turn } = await conversation();
    const config = { agent: 'asks', workspace: 'own' };
    const runs = (...commands: string[]) =>
      JSON.stringify(commands.map((command) => ({ title: command, kind: 'execute', rawInput: { command } })));
    const { id } = await start('acp', runs('npm test', 'git push', 'npm test && git push', 'make'), config);
    const action = await cluster.action(id);
    await cluster.client.respond(id, action.id, {
      approved: true,
      metadata: { scope: 'conversation', by: 'somebody' },
    });
    const ended = await cluster.client.waitForTerminal(id, { timeoutMs: 50_000 });
    expect(ended.finalOutput).toBe('once no no once ');
    const answered = (await cluster.log(id)).flatMap(({ data }) => {
      const { name, rule, approved } = data as { name?: string; rule?: string; approved?: boolean };
      return name === 'policy.answered' ? [[rule, approved]] : [];
    });
    expect(answered).toEqual([
      ['tests', true],
      ['no pushes', false],
      ['no pushes', false],
    ]);
    const again = await turn('acp', runs('make'), config);
    expect(again.finalOutput).toBe('once ');
    expect(again.events.map(({ type }) => type)).not.toContain('action.required');
  }, 120_000);
});
