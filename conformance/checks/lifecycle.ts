/** How an execution runs, ends, and is read. */
import { setTimeout as delay } from 'node:timers/promises';
import type { HoldfastEvent } from '../../protocol/event.js';
import { type ExecutionState, isTerminal, walk } from '../../protocol/lifecycle.js';
import { type Check, type Finished, type Kit, must, mustEqual, mustRefuse, Skipped } from '../kit.js';

/** The scenario `text`, run once for all checks that look at it. */
export function textRun(kit: Kit): Promise<Finished> {
  return kit.once('text', () => kit.run(kit.scenarios.text));
}

export const lifecycleChecks: readonly Check[] = [
  {
    name: 'lifecycle.succeeds',
    async run(kit) {
      const { execution, events } = await textRun(kit);
      const { id, state, error, finalOutput, startedAt = '', endedAt = '', createdAt, pendingActions } = execution;
      must(state === 'succeeded', `the state is ${state} (${error?.code}: ${error?.message})`);
      mustEqual(
        'the first event',
        [events[0]?.type, events[0]?.data],
        ['run.queued', { providerId: kit.options.providerId }],
      );
      mustEqual('the second event', events[1]?.type, 'run.started');
      const [done, completed] = events.slice(-2);
      mustEqual('the last two events', [done?.type, completed?.type], ['output.text.done', 'run.completed']);
      mustEqual('the text of output.text.done', textOf(done), finalOutput);
      mustEqual(
        'the finalOutput of run.completed',
        completed?.type === 'run.completed' && completed.data.finalOutput,
        finalOutput,
      );
      must(createdAt <= startedAt && startedAt <= endedAt, `times are ${createdAt}, ${startedAt}, ${endedAt}`);
      mustEqual('the open actions of what has ended', pendingActions, []);
      mustEqual(
        'the ids of events',
        events.map((event) => event.id),
        events.map(({ sequence }) => `${id}:${sequence}`),
      );
      says(finalOutput, kit.scenarios.text.says);
      return undefined;
    },
  },
  {
    name: 'lifecycle.fails',
    async run(kit) {
      const scenario = kit.scenario('fail');
      const { execution, events } = await kit.run(scenario);
      must(execution.state === 'failed', `the state is ${execution.state}`);
      const last = events.at(-1);
      mustEqual('run.failed', last?.type === 'run.failed' && last.data, execution.error);
      must((execution.error?.message ?? '') !== '', 'the error has no message');
      says(execution.error?.message, scenario.says);
      return `${execution.error?.code}: ${execution.error?.message}`.slice(0, 200);
    },
  },
  {
    name: 'lifecycle.timeout',
    async run(kit) {
      const { execution, events } = await kit.run(kit.scenarios.hang, { timeoutSeconds: 1 });
      mustEqual('how it ended', [execution.state, execution.error?.code], ['failed', 'EXECUTION_TIMEOUT']);
      const last = events.at(-1);
      mustEqual('run.failed', last?.type === 'run.failed' && last.data.code, 'EXECUTION_TIMEOUT');
      return undefined;
    },
  },
  {
    name: 'lifecycle.states',
    async run(kit) {
      const { id } = await kit.start(kit.scenarios.hang);
      const seen: ExecutionState[] = ['queued'];
      const look = async (): Promise<ExecutionState> => {
        const { state } = await kit.client.getExecution(id);
        if (seen.at(-1) !== state) seen.push(state);
        return state;
      };
      const end = performance.now() + kit.options.timeoutMs;
      while ((await look()) !== 'running' && performance.now() < end) await delay(10);
      await kit.client.cancel(id);
      while (!isTerminal(await look()) && performance.now() < end) await delay(10);
      for (const [at, state] of seen.entries()) {
        const next = seen[at + 1];
        must(next === undefined || walk(state, next) !== undefined, `it went from ${state} to ${next}`);
      }
      must(seen.includes('running') && seen.at(-1) === 'cancelled', `it went ${seen.join(' -> ')}`);
      await kit.finish(id);
      return seen.join(' -> ');
    },
  },
  {
    name: 'lifecycle.streaming',
    async run(kit) {
      if ((await kit.level('event.streaming')) === 'unsupported') throw new Skipped('event.streaming is not claimed');
      const { events, execution } = await textRun(kit);
      const texts = events.flatMap((event) => (event.type === 'output.text.delta' ? [event.data.text] : []));
      must(texts.length > 0, 'no output.text.delta came');
      must(!texts.some((text) => /\p{Surrogate}/u.test(text)), 'a delta holds half a character');
      return `${texts.length} deltas, ${execution.finalOutput?.length} characters`;
    },
  },
  {
    name: 'lifecycle.replay',
    async run(kit) {
      const { execution, events } = await textRun(kit);
      for (const after of new Set([0, Math.floor(events.length / 2), events.length - 1])) {
        const again: HoldfastEvent[] = [];
        for await (const event of kit.client.events(execution.id, { after })) again.push(event);
        mustEqual(`the log after ${after}`, again, events.slice(after));
      }
      const paged: HoldfastEvent[] = [];
      for (let cursor = 0; cursor < events.length; ) {
        const page = await kit.client.listEvents(execution.id, { after: cursor, limit: Math.ceil(events.length / 2) });
        must(page.nextCursor > cursor, `a page after ${cursor} goes on at ${page.nextCursor}`);
        paged.push(...page.events);
        cursor = page.nextCursor;
      }
      mustEqual('the log in pages', paged, events);
      const beyond = kit.client.listEvents(execution.id, { after: events.length + 1 });
      await mustRefuse('a cursor beyond the last event', beyond, 'VALIDATION_ERROR');
      return undefined;
    },
  },
];

function textOf(event: HoldfastEvent | undefined): string | undefined {
  return event?.type === 'output.text.done' ? event.data.text : undefined;
}

export function says(text: string | undefined, expected: string | undefined): void {
  must(
    expected === undefined || (text ?? '').includes(expected),
    `${JSON.stringify(text)} does not hold ${JSON.stringify(expected)}`,
  );
}
