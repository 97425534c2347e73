/** How an execution runs, ends, and is read. */
import { randomUUID } from 'node:crypto';
import type { HoldfastEvent } from '../../protocol/event.js';
import { walk } from '../../protocol/lifecycle.js';
import { type Check, type Finished, type Kit, must, mustEqual, mustRefuse, refusalOf, Skipped } from '../kit.js';
import { cancelledRun } from './cancelled.js';

/** The scenario `text` with all that is claimed required; run once for all checks that look at it. */
export function textRun(kit: Kit): Promise<TextRun> {
  return kit.once('text', async () => {
    const { id: conversationId } = await kit.client.createConversation();
    const key = { conversationId, idempotencyKey: randomUUID() };
    const { text } = kit.scenarios;
    const refusal = await refusalOf(kit.start(text, { ...key, requiredCapabilities: [NO_SUCH_CAPABILITY] }));
    const { capabilities } = await kit.manifest();
    const claimed = Object.entries(capabilities).filter(([, level]) => level !== 'unsupported');
    const request = { ...key, requiredCapabilities: claimed.map(([name]) => name) };
    const { execution, replayed } = await kit.submit(text, request);
    return { ...(await kit.finish(execution.id)), request, claimed, refusal, replayed };
  });
}

const NO_SUCH_CAPABILITY = 'conformance.no-such-thing';

export interface TextRun extends Finished {
  readonly request: {
    readonly conversationId: string;
    readonly idempotencyKey: string;
    readonly requiredCapabilities: string[];
  };
  readonly claimed: readonly (readonly [string, string])[];
  /** What came of the same start, when it required what no provider has; and whether it had started something. */
  readonly refusal: string;
  readonly replayed: boolean;
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
      must(last?.type === 'run.failed', `the last event is ${last?.type}`);
      const { usage, ...error } = last.data;
      mustEqual('run.failed', error, execution.error);
      mustEqual('the usage in run.failed', usage, execution.usage);
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
      const { states } = await cancelledRun(kit);
      for (const [at, state] of states.entries()) {
        const next = states[at + 1];
        must(next === undefined || walk(state, next) !== undefined, `it went from ${state} to ${next}`);
      }
      must(states.includes('running') && states.at(-1) === 'cancelled', `it went ${states.join(' -> ')}`);
      return states.join(' -> ');
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
