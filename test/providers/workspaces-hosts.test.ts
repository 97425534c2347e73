/** A conversation whose files are on one host, and a turn of it that comes to another. */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { commandProvider } from '../../providers/command/command.js';
import { Cluster } from '../support/cluster.js';
import { scratchFolder } from '../support/scratch.js';

let cluster: Cluster;
beforeAll(async () => {
  cluster = await Cluster.start();
});
afterAll(() => cluster.stop());

/** A host is a root of its own; the provider is the same on all. */
function host() {
  const path = join(scratchFolder(), 'root');
  mkdirSync(path);
  const provider = commandProvider({
    commands: { sh: { command: '/bin/sh', args: ['-e'], output: 'text', workspace: 'w', passEnv: ['PATH'] } },
    workspaces: { w: { kind: 'scratch' } },
    workspaceRoot: { path },
  });
  return async <T>(work: () => Promise<T>): Promise<T> => {
    const worker = await cluster.worker({ providers: [provider] });
    try {
      return await work();
    } finally {
      await worker.shutdown({ drainMs: 0 });
    }
  };
}

test('fails there with a code and what to do, and the next turn at home finds the files', async () => {
  const [home, elsewhere] = [host(), host()];
  const { id: conversationId } = await cluster.client.createConversation();
  const turn = async (input: string) => {
    const { id } = await cluster.start({ providerId: 'command', input, conversationId });
    const execution = await cluster.client.waitForTerminal(id);
    const events = await cluster.log(id);
    return { ...execution, named: events.flatMap(({ type, data }) => (type === 'provider.event' ? [data] : [])) };
  };
  expect(await home(() => turn('echo one > notes'))).toMatchObject({ state: 'succeeded' });
  const lost = await elsewhere(() => turn('cat notes'));
  expect(lost).toMatchObject({ state: 'failed', error: { code: 'PROVIDER_ERROR' } });
  expect(lost.error?.message).toMatch(/"w" are on another host: .*Start the turn again when .*sharedAs/);
  const [event] = lost.named.filter(({ name }) => name === 'workspace.elsewhere');
  expect(event).toMatchObject({ workspace: 'w' });
  expect(event?.root).not.toBe(event?.here);
  expect(await home(() => turn('cat notes'))).toMatchObject({ state: 'succeeded', finalOutput: 'one\n' });
});
