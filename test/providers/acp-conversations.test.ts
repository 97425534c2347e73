/** A conversation goes on with the agent's own session; a session that is lost is never lost in silence. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { Json } from '../../protocol/json.js';
import { acpProvider } from '../../providers/acp/acp.js';
import { ConversationMemory } from '../../providers/acp/memory.js';
import { agentScript } from '../support/acp-agents.js';
import { testContext } from '../support/provider-context.js';
import { scratchFolder } from '../support/scratch.js';

type Continuity = 'native' | 'degraded' | 'none';

/** Turns of one conversation; each is a process of its own. */
function conversation(continuity: Continuity, mode = 'remembers') {
  const cwd = scratchFolder();
  const it = { command: process.execPath, args: [agentScript('polite'), mode], cwd };
  const provider = acpProvider({ agents: { it, other: it }, defaultAgent: 'it', continuity });
  let session: Json | undefined;
  const turn = async (input: string, config: { agent?: string } = {}) => {
    const ctx = testContext(provider, { input, config, ...(session === undefined ? {} : { session }) });
    const result = await provider.run(ctx).catch((error: unknown) => ({ error }));
    session = ctx.sessions.at(-1) ?? session;
    return { ctx, text: ctx.text, result };
  };
  const loseSessions = () => writeFileSync(join(cwd, 'sessions.json'), '{}');
  return { provider, turn, loseSessions };
}

const continuity = ({ provider }: ReturnType<typeof conversation>) =>
  provider.manifest.capabilities['conversation.continuity'];

describe('turns of one conversation', () => {
  test('go on with the session of the agent, each in a new process, and none is told twice', async () => {
    const it = conversation('native');
    expect(continuity(it)).toBe('native');
    expect((await it.turn('one')).text).toBe('one');
    expect((await it.turn('two')).text).toBe('one, two');
    const third = await it.turn('three');
    expect(third.text).toBe('one, two, three');
    expect(third.ctx.native('acp.session_lost')).toEqual([]);
  });

  test('cost what they cost, though the agent counts for the whole session', async () => {
    const it = conversation('native');
    const results = [await it.turn('one'), await it.turn('two'), await it.turn('three')].map(({ result }) => result);
    expect(results).toEqual([0, 1, 2].map(() => ({ usage: { costUsd: 0.25 } })));
  });

  test('have a session with each agent', async () => {
    const it = conversation('native');
    await it.turn('one');
    expect((await it.turn('first', { agent: 'other' })).text).toBe('first');
    expect((await it.turn('two')).text).toBe('one, two');
    expect((await it.turn('second', { agent: 'other' })).text).toBe('first, second');
  });

  test('without continuity know nothing of each other', async () => {
    const it = conversation('none');
    expect(continuity(it)).toBe('unsupported');
    await it.turn('one');
    const second = await it.turn('two');
    expect([second.text, second.ctx.sessions]).toEqual(['two', []]);
  });
});

describe('a session that the agent has lost', () => {
  test('fails the turn, is on record, and nothing is asked of a fresh one', async () => {
    const it = conversation('native');
    await it.turn('one');
    it.loseSessions();
    const { ctx, text, result } = await it.turn('two');
    expect(result).toMatchObject({
      error: {
        code: 'PROVIDER_ERROR',
        message: expect.stringMatching(/lost the session.*no session ses_.*Start another/s),
      },
    });
    expect(ctx.native('acp.session_lost')).toMatchObject([
      { sessionId: expect.stringMatching(/^ses_/), goesOn: false },
    ]);
    expect(text).toBe('');
  });

  test('is replaced where that is declared, and the turns after it go on with the new one', async () => {
    const it = conversation('degraded');
    expect(continuity(it)).toBe('degraded');
    await it.turn('one');
    it.loseSessions();
    const { ctx, text } = await it.turn('two');
    expect(text).toBe('two');
    expect(ctx.native('acp.session_lost')).toMatchObject([
      { reason: expect.stringContaining('no session'), goesOn: true },
    ]);
    expect((await it.turn('three')).text).toBe('two, three');
  });
});

describe('an agent that cannot load sessions', () => {
  test('is refused at the first turn where continuity is promised', async () => {
    const { result } = await conversation('native', 'forgets').turn('one');
    expect(result).toMatchObject({
      error: { code: 'PROVIDER_ERROR', message: expect.stringMatching(/"loadSession".*"degraded" or "none"/) },
    });
  });

  test('starts afresh where it is not, which is on record from the second turn on', async () => {
    const it = conversation('degraded', 'forgets');
    const lost = async () => (await it.turn('x')).ctx.native('acp.session_lost').length;
    expect([await lost(), await lost()]).toEqual([0, 1]);
  });
});

describe('what is handed from turn to turn', () => {
  test.each([undefined, null, 7, 'ses_1', [], { agents: { it: 'ses_1' } }, { agents: null }])(
    'is nothing when it is %j',
    (kept) => expect(new ConversationMemory(kept).session('it')).toBeUndefined(),
  );

  test('stays within its bound: the agents used longest ago go first', () => {
    const memory = new ConversationMemory(undefined);
    for (let i = 0; i < 9; i++) memory.remember(`agent${i}`, { id: 'x'.repeat(1000), place: 'here' });
    const kept = new ConversationMemory(memory.toJson());
    expect(JSON.stringify(memory.toJson()).length).toBeLessThanOrEqual(4096);
    expect([kept.session('agent0'), kept.session('agent8')?.place]).toEqual([undefined, 'here']);
  });
});
