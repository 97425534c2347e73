import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { Cluster, QUICK_POOL, types } from '../support/cluster.js';
import { probeProvider } from '../support/probe-provider.js';

let cluster: Cluster;
const probe = probeProvider('probe');

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker({ providers: [scriptedProvider(), probe.provider], rollover: { batches: 4 } });
});

afterAll(async () => {
  await cluster.stopCompared();
});

async function statusOf(executionId: string): Promise<string> {
  await expect
    .poll(async () => (await cluster.handle(executionId).describe()).status.name, { timeout: 15_000 })
    .not.toBe('RUNNING');
  return (await cluster.handle(executionId).describe()).status.name;
}

/** To its first or its last completed workflow task. */
async function resetRun(executionId: string, runId: string, to: 'first' | 'last'): Promise<void> {
  const { events } = await cluster.handle(executionId, runId).fetchHistory();
  const done = (events ?? []).filter((event) => event.workflowTaskCompletedEventAttributes);
  await cluster.temporal.workflowService.resetWorkflowExecution({
    namespace: 'default',
    workflowExecution: { workflowId: `default.${executionId}`, runId },
    reason: 'an operator tries',
    workflowTaskFinishEventId: (to === 'first' ? done[0] : done.at(-1))?.eventId ?? null,
    requestId: `reset-${executionId}`,
  });
}

describe('the status in Temporal', () => {
  it('is Completed for succeeded and Failed for failed, with the code', async () => {
    const good = await cluster.run([{ say: 'x' }]);
    const bad = await cluster.run([{ fail: 'no' }]);
    expect(await statusOf(good.id)).toBe('COMPLETED');
    expect(await statusOf(bad.id)).toBe('FAILED');
    await expect(cluster.handle(bad.id).result()).rejects.toMatchObject({
      cause: { type: 'PROVIDER_ERROR', message: 'no' },
    });
  });

  it.each([
    ['client.cancel', (id: string) => cluster.client.cancel(id, 'r').then(() => undefined), 'r'],
    ['the signal alone', (id: string) => cluster.handle(id).signal('cancel', { reason: 's' }), 's'],
    [
      'the UI’s Request Cancellation',
      (id: string) =>
        cluster
          .handle(id)
          .cancel()
          .then(() => undefined),
      undefined,
    ],
  ])('is Canceled after %s, also for what waits and what is suspended', async (_, cancel, reason) => {
    const running = await cluster.run([{ hang: true }]);
    await cluster.seen(running.id, (event) => event.type === 'run.started');
    const waiting = await cluster.run([{ approve: { title: 'ok?' } }]);
    const suspended = await cluster.run([{ approve: { title: 'ok?' } }], { suspend: true });
    await cluster.action(waiting.id);
    await cluster.action(suspended.id);
    for (const { id } of [running, waiting, suspended]) {
      await cancel(id);
      expect(await statusOf(id)).toBe('CANCELLED');
      const events = await cluster.log(id);
      expect(events.filter((event) => event.type === 'run.cancelled')).toHaveLength(1);
      expect(events.at(-1)?.data).toMatchObject(reason === undefined ? {} : { reason });
    }
  });

  it('is Canceled for one that no worker took, at once and as not_running; it times out there, too', async () => {
    const gone = await cluster.worker({ providers: [probeProvider('gone').provider] });
    await gone.shutdown();
    const request = { providerId: 'gone', config: {} };
    const queued = await cluster.start(request);
    const timed = await cluster.start({ ...request, timeoutSeconds: 1 });
    expect(await cluster.client.cancel(queued.id, 'r')).toMatchObject({ id: queued.id });
    const cancelled = await cluster.log(queued.id);
    expect(types(cancelled)).toEqual(['run.queued', 'run.cancelled']);
    expect(cancelled.at(-1)?.data).toEqual({ reason: 'r', confirmation: 'not_running' });
    expect(await statusOf(queued.id)).toBe('CANCELLED');
    const failed = await cluster.log(timed.id);
    expect(types(failed)).toEqual(['run.queued', 'run.failed']);
    expect(failed.at(-1)?.data).toMatchObject({ code: 'EXECUTION_TIMEOUT' });
  });
});

describe('a terminated execution', () => {
  it('leaves no provider running, after one heartbeat timeout at most', async () => {
    const { id } = await cluster.start({ providerId: 'probe', config: {} });
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    expect(probe.running.has(id)).toBe(true);
    await cluster.handle(id).terminate();
    await expect.poll(() => probe.running.has(id), { timeout: QUICK_POOL.heartbeatTimeoutMs + 1_000 }).toBe(false);
    expect(probe.cleanups.get(id)).toBe(1);
  });

  it('reads sealed, always the same', async () => {
    const { id } = await cluster.run([{ say: 'x' }, { approve: { title: 'ok?' } }]);
    const { id: actionId } = await cluster.action(id);
    const live = cluster.log(id);
    await cluster.handle(id).terminate('by an operator');
    const events = await live;
    expect(events.at(-1)).toMatchObject({ type: 'run.failed', data: { code: 'TERMINATED' } });
    expect(events.map((event) => event.sequence)).toEqual(events.map((_, i) => i + 1));
    expect(await cluster.log(id)).toEqual(events);
    expect((await cluster.client.listEvents(id)).events).toEqual(events);
    expect(await cluster.client.getExecution(id)).toMatchObject({
      state: 'failed',
      error: { code: 'TERMINATED' },
      pendingActions: [],
    });
    await expect(cluster.client.respond(id, actionId, { approved: true })).rejects.toMatchObject({
      code: 'INVALID_STATE',
    });
  });

  it('ends as cancelled, lost, when it was being cancelled', async () => {
    const { id } = await cluster.run([{ ignoreCancel: true }, { say: 'x' }, { wait: 4_000 }]);
    await cluster.seen(id, (event) => event.type === 'output.text.delta');
    await cluster.client.cancel(id, 'enough');
    await cluster.handle(id).terminate();
    const events = await cluster.log(id);
    expect(events.at(-1)).toMatchObject({ type: 'run.cancelled', data: { reason: 'enough', confirmation: 'lost' } });
    expect(types(events)).not.toContain('run.failed');
  });
});

describe('a Reset execution', () => {
  it.each(['suspended', 'rolled over and suspended'])('that was %s closes as Failed with RESET', async (how) => {
    const steps = [{ say: 'abcdefgh', chunk: 1, everyMs: 200 }, { approve: { title: 'ok?' } }];
    const { id } = await cluster.run(how === 'suspended' ? steps.slice(1) : steps, { suspend: true });
    const { id: actionId } = await cluster.action(id);
    const atRest = async () => {
      const { raw } = await cluster.handle(id).describe();
      const { events } = await cluster.handle(id).fetchHistory();
      const tasks = events?.filter((event) => event.workflowTaskCompletedEventAttributes).length ?? 0;
      return tasks > 0 && !raw.pendingWorkflowTask && !raw.pendingActivities?.length;
    };
    await expect.poll(atRest, { timeout: 15_000 }).toBe(true);
    const before = await cluster.handle(id).describe();
    const firstRun = before.raw.workflowExecutionInfo?.firstRunId;
    expect(firstRun === before.runId).toBe(how === 'suspended');
    await resetRun(id, before.runId, 'last');
    expect(await statusOf(id)).toBe('FAILED');
    await expect(cluster.handle(id).result()).rejects.toMatchObject({ cause: { type: 'RESET' } });
    expect((await cluster.client.getExecution(id)).error?.code).toBe('TERMINATED');
    await expect(cluster.client.respond(id, actionId, { approved: true })).rejects.toMatchObject({
      code: 'INVALID_STATE',
    });
    cluster.started.splice(cluster.started.indexOf(id), 1);
  });

  it('that was about to roll over closes as Failed with RESET, and does not roll over', async () => {
    const { id } = await cluster.run([{ say: 'abcdefgh', chunk: 1, everyMs: 200 }, { approve: { title: 'ok?' } }]);
    await cluster.action(id);
    const before = await cluster.handle(id).describe();
    const firstRun = before.raw.workflowExecutionInfo?.firstRunId ?? '';
    expect(firstRun).not.toBe(before.runId);
    // The last task of a run that was continued as new is the one that decided so.
    await resetRun(id, firstRun, 'last');
    expect(await statusOf(id)).toBe('FAILED');
    await expect(cluster.handle(id).result()).rejects.toMatchObject({ cause: { type: 'RESET' } });
    expect((await cluster.client.getExecution(id)).error?.code).toBe('TERMINATED');
    const events = await cluster.log(id);
    expect(events.map((event) => event.sequence)).toEqual(events.map((_, i) => i + 1));
    cluster.started.splice(cluster.started.indexOf(id), 1);
  });

  it('that had ended closes as Failed with RESET, and its log stays what it was', async () => {
    const { id } = await cluster.run([{ say: 'all of it' }]);
    const events = await cluster.log(id);
    expect(await statusOf(id)).toBe('COMPLETED');
    const { runId } = await cluster.handle(id).describe();
    await resetRun(id, runId, 'last');
    expect(await statusOf(id)).toBe('FAILED');
    await expect(cluster.handle(id).result()).rejects.toMatchObject({ cause: { type: 'RESET' } });
    expect((await cluster.client.listEvents(id)).events).toEqual(events);
    expect((await cluster.client.getExecution(id)).finalOutput).toBe('all of it');
    cluster.started.splice(cluster.started.indexOf(id), 1);
  });

  it('adds nothing to the log, runs no provider, and closes as Failed with RESET', async () => {
    const { id } = await cluster.run([{ say: 'abc', chunk: 1, everyMs: 20 }, { approve: { title: 'ok?' } }]);
    await cluster.action(id);
    const before = await cluster.handle(id).describe();
    await resetRun(id, before.runId, 'first');
    expect(await statusOf(id)).toBe('FAILED');
    const events = await cluster.log(id);
    expect(events.at(-1)).toMatchObject({ type: 'run.failed', data: { code: 'TERMINATED' } });
    expect(types(events).filter((type) => type === 'run.started')).toHaveLength(1);
    expect((await cluster.client.listEvents(id)).events).toEqual(events);
    expect((await cluster.client.getExecution(id)).error?.code).toBe('TERMINATED');
    const reset = await cluster.handle(id).describe();
    expect(reset.runId).not.toBe(before.runId);
    await expect(cluster.handle(id).result()).rejects.toMatchObject({ cause: { type: 'RESET' } });
    cluster.started.splice(cluster.started.indexOf(id), 1);
  });
});

describe('an operator in the Temporal UI', () => {
  it('sees state, text and what is asked in the current details, and answers with the signal named there', async () => {
    const { id } = await cluster.run([{ say: 'about to deploy' }, { approve: { title: 'Deploy now?' } }, { say: '!' }]);
    await cluster.action(id);
    const details = async () => {
      const metadata = await cluster.handle(id).query<{ currentDetails: string }>('__temporal_workflow_metadata');
      return metadata.currentDetails;
    };
    await expect.poll(details, { timeout: 5_000 }).toContain('Deploy now?');
    const shown = await details();
    expect(shown).toContain('awaiting_approval');
    expect(shown).toContain('about to deploy');
    const line = shown.split('\n').find((each) => each.startsWith('{') && each.includes('"approved":true'));
    await cluster.handle(id).signal('respond', JSON.parse(line!));
    expect((await cluster.client.waitForTerminal(id)).finalOutput).toBe('about to deployapproved!');
  });

  it('finds executions by the four search attributes, with a summary of what they are', async () => {
    const { id, conversationId } = await cluster.run([{ approve: { title: 'ok?' } }], { input: 'tidy the attic' });
    await cluster.action(id);
    const query = `HoldfastState = 'awaiting_approval' AND HoldfastProvider = 'scripted' AND HoldfastTenant = 'default' AND HoldfastConversation = '${conversationId}' AND WorkflowType = 'execution'`;
    const ids = async () => {
      const found: string[] = [];
      for await (const each of cluster.temporal.workflow.list({ query })) found.push(each.workflowId);
      return found;
    };
    await expect.poll(ids, { timeout: 10_000 }).toEqual([`default.${id}`]);
    expect(await (await cluster.handle(id).describe()).staticSummary()).toContain('tidy the attic');
    await cluster.client.cancel(id);
  });

  it.each(['pause', 'unpause', 'reset'] as const)(
    'leaves a live provider alone with %s of its activity',
    async (what) => {
      const { id } = await cluster.run([{ say: 'a' }, { approve: { title: 'ok?' } }, { say: 'b' }]);
      const { id: actionId } = await cluster.action(id);
      const service = cluster.temporal.workflowService;
      const target = { namespace: 'default', execution: { workflowId: `default.${id}` }, type: 'run' };
      if (what !== 'reset') await service.pauseActivity({ ...target, reason: 'an operator tries' });
      if (what === 'unpause') await service.unpauseActivity(target);
      if (what === 'reset') await service.resetActivity({ ...target, keepPaused: false });
      // Two heartbeats later the server has told the host all it wanted to.
      const since = Date.now();
      await expect.poll(() => Date.now() - since, { timeout: 10_000 }).toBeGreaterThan(1_500);
      await cluster.client.respond(id, actionId, { approved: true });
      const execution = await cluster.client.waitForTerminal(id);
      expect(execution).toMatchObject({ state: 'succeeded', finalOutput: 'aapprovedb' });
      expect(types(await cluster.log(id)).filter((type) => type === 'run.started')).toHaveLength(1);
    },
  );
});
