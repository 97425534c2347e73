/** What a conversation keeps between its turns, also when a session is lost and when its workflow continues as new. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Execution } from '../../protocol/execution.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';
import { sessionProvider } from '../support/session-provider.js';
import { turnProvider } from '../support/turn-provider.js';

let cluster: Cluster;
const strict = sessionProvider('strict', 'native');
const lenient = sessionProvider('lenient', 'degraded');
const turns = turnProvider('turns', 'native');

beforeAll(async () => {
  cluster = await Cluster.start({ dynamicConfig: { 'limit.historyCount.suggestContinueAsNew': 40 } });
  const providers = [strict.provider, lenient.provider, turns.provider, scriptedProvider()];
  await cluster.worker({ providers, pool: PATIENT_POOL });
});

afterAll(async () => {
  await cluster.stopCompared();
});

async function turn(providerId: string, conversationId: string, input: string): Promise<Execution> {
  const { id } = await cluster.start({ providerId, conversationId, input });
  return await cluster.client.waitForTerminal(id);
}

async function lost(executionId: string): Promise<unknown[]> {
  return (await cluster.log(executionId)).flatMap((event) =>
    event.type === 'provider.event' && event.data.name === 'runtime.session_lost' ? [event.data] : [],
  );
}

describe('a native session that the harness has lost', () => {
  it('fails the turn when continuity is native, and every later one: nothing goes on as if nothing had been', async () => {
    const { id } = await cluster.client.createConversation();
    expect((await turn('strict', id, 'one')).finalOutput).toBe('one');
    expect((await turn('strict', id, 'two')).finalOutput).toBe('one two');
    strict.forget();
    for (const input of ['three', 'four']) {
      const failed = await turn('strict', id, input);
      expect(failed).toMatchObject({ state: 'failed', error: { code: 'PROVIDER_ERROR' } });
      expect(failed.error?.message).toMatch(/session of this conversation is lost/);
      expect(await lost(failed.id)).toEqual([{ name: 'runtime.session_lost', message: 'there is no session 1' }]);
    }
  });

  it('is begun anew when continuity is degraded; the log says so, and later turns go on with the new one', async () => {
    const { id } = await cluster.client.createConversation();
    expect((await turn('lenient', id, 'one')).finalOutput).toBe('one');
    lenient.forget();
    const second = await turn('lenient', id, 'two');
    expect(second.finalOutput).toBe('two');
    expect(await lost(second.id)).toHaveLength(1);
    const third = await turn('lenient', id, 'three');
    expect(third.finalOutput).toBe('two three');
    expect(await lost(third.id)).toEqual([]);
  });
});

describe('a conversation', () => {
  it('shows whether it is closed', async () => {
    const made = await cluster.client.createConversation({ metadata: { of: 'ada' } });
    expect(made).toMatchObject({ metadata: { of: 'ada' }, closed: false });
    expect(await cluster.client.getConversation(made.id)).toEqual(made);
    expect(await cluster.client.closeConversation(made.id)).toEqual({ ...made, closed: true });
    expect(await cluster.client.getConversation(made.id)).toEqual({ ...made, closed: true });
  });

  it('keeps order, session and transcript through runs of its workflow, with everybody there at once', async () => {
    const { id: conversationId } = await cluster.client.createConversation();
    const started: Execution[] = [];
    for (let i = 0; i < 12; i++) started.push(await cluster.start({ providerId: 'turns', conversationId }));
    const results = await Promise.all(started.map(({ id }) => cluster.client.waitForTerminal(id)));
    expect(results.map((each) => each.finalOutput)).toEqual(started.map((_, i) => `turn ${i + 1}`));
    expect(turns.peak.get(conversationId)).toBe(1);
    const { raw } = await cluster.handle(conversationId).describe();
    expect(raw.workflowExecutionInfo?.firstRunId).not.toBe(raw.workflowExecutionInfo?.execution?.runId);
    const last = await cluster.start({ providerId: 'turns', conversationId });
    const said = (await cluster.log(last.id)).find((event) => event.type === 'output.text.delta');
    const earlier = started.map((_, i) => `turn ${i + 1}`).join('|');
    expect(said?.data).toEqual({ text: `turn 13 after [${earlier}]` });
  });
});
