import { afterAll, beforeAll, expect, it } from 'vitest';
import type { HoldfastClient } from '../../client/client.js';
import { Cluster, isActionRequired } from '../support/cluster.js';
import { codeOf, refusal } from './refusal.js';

/** One cluster, one worker, two tenants that share nothing else. */
let cluster: Cluster;
let ours: HoldfastClient;
let theirs: HoldfastClient;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker();
  ours = await cluster.anotherClient({ tenant: 'ours' });
  theirs = await cluster.anotherClient({ tenant: 'theirs' });
});

afterAll(() => cluster.stop());

async function waiting(client: HoldfastClient): Promise<{ id: string; conversationId: string; actionId: string }> {
  const { id: conversationId } = await client.createConversation({ metadata: { of: client.tenant } });
  const { execution } = await client.startExecution({
    conversationId,
    providerId: 'scripted',
    input: client.tenant,
    idempotencyKey: 'the same for both',
    config: { steps: [{ approve: { title: `for ${client.tenant}` } }] },
  });
  for await (const event of client.events(execution.id))
    if (isActionRequired(event)) return { id: execution.id, conversationId, actionId: event.data.id };
  throw new Error('it asked nothing');
}

it('reads and touches nothing of another tenant: what is there for one is NOT_FOUND for the other', async () => {
  const { id, conversationId, actionId } = await waiting(theirs);
  const before = await theirs.getExecution(id);
  const approved = { approved: true };
  const attempts = [
    ours.getExecution(id),
    ours.listEvents(id),
    ours.events(id).next(),
    ours.events(id, { after: 1 }).next(),
    ours.artifacts(id),
    ours.waitForTerminal(id),
    ours.respond(id, actionId, approved),
    ours.cancel(id),
    ours.getConversation(conversationId),
    ours.startExecution({ conversationId, providerId: 'scripted', input: 1 }),
  ];
  const codes = (await Promise.all(attempts.map(refusal))).map((refused) => refused.code);
  expect(codes).toEqual(attempts.map(() => 'NOT_FOUND'));
  expect(await theirs.getExecution(id)).toEqual(before);
  await theirs.respond(id, actionId, approved);
  expect(await theirs.waitForTerminal(id)).toMatchObject({ state: 'succeeded', finalOutput: 'approved' });
});

it('says the same of an execution that is another tenant’s and of one that never was', async () => {
  const { id } = await waiting(theirs);
  const [other, never] = [await refusal(ours.getExecution(id)), await refusal(ours.getExecution(`${id}x`))];
  expect(other.message.replace(id, '')).toBe(never.message.replace(`${id}x`, ''));
  await theirs.cancel(id);
  await theirs.waitForTerminal(id);
});

it('gives each tenant its own execution for the same idempotency key', async () => {
  const [a, b] = [await waiting(ours), await waiting(theirs)];
  expect(a.id).not.toBe(b.id);
  expect((await ours.getExecution(a.id)).input).toBe('ours');
  expect((await theirs.getExecution(b.id)).input).toBe('theirs');
  await Promise.all([ours.cancel(a.id), theirs.cancel(b.id)]);
  await Promise.all([ours.waitForTerminal(a.id), theirs.waitForTerminal(b.id)]);
});

it('lists only its own, whatever the filters, and takes no page token of another', async () => {
  const mine = await waiting(ours);
  const other = await waiting(theirs);
  const ids = async (client: HoldfastClient, filter = {}): Promise<string[]> =>
    (await client.listExecutions(filter)).executions.map((execution) => execution.id);
  await expect.poll(() => ids(ours), { timeout: 10_000 }).toContain(mine.id);
  await expect.poll(() => ids(theirs), { timeout: 10_000 }).toContain(other.id);
  expect(await ids(ours)).not.toContain(other.id);
  expect(await ids(theirs)).not.toContain(mine.id);
  expect(await ids(ours, { providerId: 'scripted' })).not.toContain(other.id);
  expect(await ids(ours, { conversationId: other.conversationId })).toEqual([]);
  const { nextPageToken: pageToken } = await theirs.listExecutions({ limit: 1 });
  expect(await codeOf(ours.listExecutions({ limit: 1, pageToken: pageToken! }))).toBe('VALIDATION_ERROR');
  await Promise.all([ours.cancel(mine.id), theirs.cancel(other.id)]);
  await Promise.all([ours.waitForTerminal(mine.id), theirs.waitForTerminal(other.id)]);
});
