/** What holds of every log: each that was read so far is looked at. */
import { eventSchema, type HoldfastEvent, isTerminalEvent, nativeNameProblem } from '../../protocol/event.js';
import { type Check, type Finished, type Kit, must, mustEqual, Skipped } from '../kit.js';
import { textRun } from './lifecycle.js';

/** What the runtime itself observes: no provider can say these. */
const RUNTIME_NAME = /^runtime\.[a-z_]+$/;

export const logChecks: readonly Check[] = [
  ofEachLog('invariant.1-sequence', ({ execution, events }) => {
    const sequences = events.map(({ sequence }) => sequence);
    mustEqual(
      `the sequences of ${execution.id}`,
      sequences,
      Array.from(events, (_, at) => at + 1),
    );
  }),
  ofEachLog('invariant.2-one-end', ({ execution, events }) => {
    const ends = events.filter(isTerminalEvent);
    mustEqual(
      `the terminal events of ${execution.id}`,
      ends.map(({ type }) => type),
      [END_OF[execution.state]],
    );
    must(isTerminalEvent(events.at(-1) ?? { type: 'none' }), `${execution.id} has events after its end`);
  }),
  ofEachLog('invariant.6-no-forgery', ({ execution, events }) => {
    for (const event of events) {
      const { error } = eventSchema.safeParse(event);
      const [issue] = error?.issues ?? [];
      must(issue === undefined, `event ${event.id} (${event.type}): ${issue?.path.join('.')}: ${issue?.message}`);
      mustEqual(`the execution of event ${event.sequence}`, event.executionId, execution.id);
      if (event.type === 'provider.event') mustBeNative(event);
    }
    const of = (type: string): HoldfastEvent[] => events.filter((event) => event.type === type);
    mustEqual(
      `run.queued of ${execution.id}`,
      of('run.queued').map(({ sequence }) => sequence),
      [1],
    );
    must(of('run.started').length <= 1, `${execution.id} was started ${of('run.started').length} times`);
    const asked = new Set(events.flatMap((event) => (event.type === 'action.required' ? [event.data.id] : [])));
    for (const event of events)
      if (event.type === 'action.responded')
        must(asked.has(event.data.actionId), `${event.data.actionId} was answered and never asked`);
    const done = of('output.text.done').map(({ sequence }) => sequence);
    const expected = execution.state === 'succeeded' ? [events.length - 1] : [];
    mustEqual(`output.text.done of ${execution.id}`, done, expected);
  }),
  {
    name: 'invariant.7-artifacts',
    async run(kit) {
      const { id } = (await artifactRun(kit)).execution;
      for (const { execution, events } of kit.logs.values()) {
        const created = events.flatMap((event) => (event.type === 'artifact.created' ? [event.data.id] : []));
        mustEqual(`the artifact ids of ${execution.id}`, created, [...new Set(created)]);
      }
      const listed = (await kit.client.artifacts(id)).map((artifact) => artifact.id);
      const events = kit.logs.get(id)?.events ?? [];
      for (const each of listed) {
        const creations = events.filter((event) => event.type === 'artifact.created' && event.data.id === each);
        must(creations.length === 1, `artifact ${each} is listed, and has ${creations.length} creation events`);
      }
      return `${listed.length} listed`;
    },
  },
  {
    name: 'artifacts.listed',
    async run(kit) {
      const { execution, events } = await artifactRun(kit);
      mustEqual('the state', execution.state, 'succeeded');
      const created = events.flatMap((event) => (event.type === 'artifact.created' ? [event.data] : []));
      must(created.length > 0, 'it made no artifact');
      mustEqual('the list of artifacts', await kit.client.artifacts(execution.id), created);
      for (const artifact of created) mustEqual('whose it is', artifact.executionId, execution.id);
      return created.map(({ name, mediaType }) => `${name} (${mediaType})`).join(', ');
    },
  },
];

const END_OF: Readonly<Record<string, string>> = {
  succeeded: 'run.completed',
  failed: 'run.failed',
  cancelled: 'run.cancelled',
};

async function artifactRun(kit: Kit): Promise<Finished> {
  const scenario = await kit.needs('artifact.list', 'artifact');
  return await kit.once('artifact', () => kit.run(scenario));
}

function ofEachLog(name: string, look: (finished: Finished) => void): Check {
  return {
    name,
    async run(kit) {
      await textRun(kit);
      for (const finished of kit.logs.values()) look(finished);
      if (kit.logs.size === 0) throw new Skipped('no log was read');
      return `${kit.logs.size} logs`;
    },
  };
}

function mustBeNative(event: HoldfastEvent & { type: 'provider.event' }): void {
  const { name } = event.data;
  if (typeof name === 'string' && RUNTIME_NAME.test(name)) return;
  const problem = nativeNameProblem(name);
  must(problem === undefined, `event ${event.id} is named ${JSON.stringify(name)}: ${problem}`);
}
