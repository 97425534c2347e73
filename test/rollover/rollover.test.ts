import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { HoldfastEvent } from '../../protocol/event.js';
import { Cluster, types } from '../support/cluster.js';

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker({ rollover: { batches: 4 } });
});

afterAll(async () => {
  const compared = await cluster.stopCompared();
  expect(compared.runs).toBeGreaterThan(compared.equal);
});

async function runsOf(executionId: string): Promise<number> {
  let runs = 0;
  const list = cluster.temporal.workflow.list({ query: `WorkflowId = 'default.${executionId}'` });
  for await (const _ of list) runs += 1;
  return runs;
}

/** Waits until the execution has rolled over at least once: its run is another than its first. */
async function rolledOver(executionId: string): Promise<void> {
  await expect
    .poll(
      async () => {
        const { raw } = await cluster.handle(executionId).describe();
        return raw.workflowExecutionInfo?.firstRunId !== raw.workflowExecutionInfo?.execution?.runId;
      },
      { timeout: 15_000, interval: 20 },
    )
    .toBe(true);
}

function expectContiguous(events: readonly HoldfastEvent[]): void {
  expect(events.map((event) => event.sequence)).toEqual(events.map((_, i) => i + 1));
}

describe('an execution that rolls over', () => {
  it('keeps its live provider and loses no event, for a live reader and from every cursor afterwards', async () => {
    const text = 'abcdefghijklmnopqrstuvwxyz0123456789';
    const { id } = await cluster.run([{ say: text.repeat(2), chunk: 1, everyMs: 40 }]);
    const live = await cluster.log(id);
    expectContiguous(live);
    expect(types(live).filter((type) => type === 'run.started')).toHaveLength(1);
    expect((await cluster.client.getExecution(id)).finalOutput).toBe(text.repeat(2));
    await expect.poll(() => runsOf(id), { timeout: 10_000 }).toBeGreaterThan(1);
    for (const after of [0, 1, 7, 20, live.length - 1]) {
      expect(await cluster.log(id, after)).toEqual(live.slice(after));
      expect((await cluster.client.listEvents(id, { after })).events).toEqual(live.slice(after));
    }
  });

  it('takes an answer right after it', async () => {
    const { id } = await cluster.run([
      { say: 'abcdefgh', chunk: 1, everyMs: 40 },
      { approve: { title: 'ok?' } },
      { say: 'end' },
    ]);
    const { id: actionId } = await cluster.action(id);
    await rolledOver(id);
    await cluster.client.respond(id, actionId, { approved: true });
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('abcdefghapprovedend');
    expectContiguous(await cluster.log(id));
  });

  it('takes a cancel right after it', async () => {
    const { id } = await cluster.run([{ say: 'abcdefgh', chunk: 1, everyMs: 40 }, { hang: true }]);
    await rolledOver(id);
    await cluster.client.cancel(id, 'enough');
    expect((await cluster.client.waitForTerminal(id)).state).toBe('cancelled');
    const events = await cluster.log(id);
    expectContiguous(events);
    expect(events.at(-1)?.data).toEqual({ reason: 'enough', confirmation: 'cooperative' });
  });

  it('still times out, by the clock of its first run', async () => {
    const { id } = await cluster.run([{ say: 'abcdefgh', chunk: 1, everyMs: 40 }, { hang: true }], {
      timeoutSeconds: 2,
    });
    const execution = await cluster.client.waitForTerminal(id);
    expect(execution.error?.code).toBe('EXECUTION_TIMEOUT');
    const took = Date.parse(execution.endedAt!) - Date.parse(execution.createdAt);
    expect(took).toBeGreaterThanOrEqual(2_000);
    expect(await runsOf(id)).toBeGreaterThan(1);
  });

  it('keeps its memo and attributes, so that lists still show it and its open action', async () => {
    const { id } = await cluster.run(
      [{ say: 'abcdefgh', chunk: 1, everyMs: 40 }, { approve: { title: 'Still there?' } }],
      { metadata: { ticket: 'T-1' } },
    );
    const { id: actionId } = await cluster.action(id);
    await rolledOver(id);
    const listed = async () =>
      (await cluster.client.listExecutions({ state: 'awaiting_approval' })).executions.find((each) => each.id === id);
    await expect.poll(async () => (await listed())?.pendingActions[0]?.id, { timeout: 10_000 }).toBe(actionId);
    expect(await listed()).toMatchObject({ metadata: { ticket: 'T-1' }, providerId: 'scripted' });
    await cluster.client.respond(id, actionId, { approved: false });
    await cluster.client.waitForTerminal(id);
  });

  it('shows also what was asked while it was under way', async () => {
    // The fourth batch makes the run roll over; the question comes while it does.
    const asked = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        cluster.run([{ say: 'abc', chunk: 1, everyMs: 30 }, { wait: i * 2 }, { approve: { title: 'ok?' } }]),
      ),
    );
    const ids = asked.map(({ id }) => id).sort();
    for (const id of ids) await cluster.action(id);
    const listed = async () =>
      (await cluster.client.listExecutions({ state: 'awaiting_approval' })).executions
        .filter(({ id, pendingActions }) => ids.includes(id) && pendingActions.length === 1)
        .map(({ id }) => id)
        .sort();
    await expect.poll(listed, { timeout: 30_000 }).toEqual(ids);
    await Promise.all(ids.map((id) => cluster.client.cancel(id)));
    await Promise.all(ids.map((id) => cluster.client.waitForTerminal(id)));
  });

  it('remembers across it how actions ended', async () => {
    const { id } = await cluster.run([
      { approve: { title: 'first?' } },
      { say: 'abcdefgh', chunk: 1, everyMs: 40 },
      { hang: true },
    ]);
    const { id: actionId } = await cluster.action(id);
    await cluster.client.respond(id, actionId, { approved: true }, { responseId: 'r1' });
    await rolledOver(id);
    await cluster.client.respond(id, actionId, { approved: true }, { responseId: 'r1' });
    await expect(cluster.client.respond(id, actionId, { approved: true })).rejects.toMatchObject({
      code: 'ACTION_ALREADY_RESOLVED',
    });
    await cluster.client.cancel(id);
    await cluster.client.waitForTerminal(id);
  });

  it('resumes from the whole journal after it, and says EVENTS_EXPIRED to a reader of what retention took', async () => {
    const steps = [
      { say: 'abcd', chunk: 1, everyMs: 40 },
      { record: 'one' },
      { say: 'efghijkl', chunk: 1, everyMs: 40 },
      { approve: { title: 'ok?' } },
      { say: '!' },
    ];
    const { id } = await cluster.run(steps, { suspend: true });
    const { id: actionId } = await cluster.action(id);
    await rolledOver(id);
    await expect
      .poll(async () => (await cluster.handle(id).describe()).raw.pendingActivities?.length ?? 0, { timeout: 5_000 })
      .toBe(0);
    const { raw } = await cluster.handle(id).describe();
    await cluster.temporal.workflowService.deleteWorkflowExecution({
      namespace: 'default',
      workflowExecution: { workflowId: `default.${id}`, runId: raw.workflowExecutionInfo?.firstRunId ?? '' },
    });
    const readAll = () => cluster.log(id);
    await expect
      .poll(
        () =>
          cluster.client.listEvents(id).then(
            () => 'read',
            (error) => error.code,
          ),
        { timeout: 10_000 },
      )
      .toBe('EVENTS_EXPIRED');
    const expired = await cluster.client.listEvents(id).catch((error) => error);
    const oldest = expired.details.oldestSequence as number;
    expect(oldest).toBeGreaterThan(1);
    await expect(readAll()).rejects.toMatchObject({ code: 'EVENTS_EXPIRED', details: { oldestSequence: oldest } });
    await cluster.client.respond(id, actionId, { approved: true });
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('abcdefghijklapproved!');
    const rest = await cluster.log(id, oldest - 1);
    expect(rest[0]?.sequence).toBe(oldest);
    cluster.started.splice(cluster.started.indexOf(id), 1);
  });
});
