/**
 * The second act: one execution, one reader, and the worker that runs it killed with `kill -9` twice, once while it
 * works and once while a person is asked. The reader is never told; it just reads on.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { HoldfastClient } from '../../client/client.js';
import { HoldfastError } from '../../protocol/errors.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import type { ScriptedConfig } from '../../providers/scripted/config.js';
import type { HoldfastConfig } from '../config/schema.js';
import { EventPrinter } from '../event-printer.js';
import type { Screen } from '../screen.js';
import type { Stage } from '../stage.js';
import { uiPage } from '../ui-page.js';
import { openTheatre, type Theatre } from './theatre.js';
import { startWorkerProcess, type WorkerProcess } from './worker-process.js';

const PROVIDER = 'demo-scripted';
/** What it works through; after each piece it makes a journal entry, from where another worker goes on. */
const WORK = ['read the plan', 'fetch the sources', 'compile them', 'run the tests', 'write the report'];
const DYING_STEP = 3;
const CHUNK = 9;
const EVERY_MS = 250;
/** Quick suspicion, so that nobody has to wait: 2 s without a heartbeat, and 2 s more to object. */
const WORKER: HoldfastConfig = {
  providers: { scripted: { id: PROVIDER } },
  pool: { heartbeatTimeoutMs: 2_000, leaseMs: 2_000, stopGraceMs: 2_000 },
  drainMs: 0,
};
/** Between the question in the log and the end of the attempt that asked it. */
const SUSPENDED_MS = 1_000;

const SCRIPT: ScriptedConfig = {
  steps: [
    ...WORK.flatMap((work, index) => [
      { say: `Step ${index + 1} of ${WORK.length}: ${work}. `, chunk: CHUNK, everyMs: EVERY_MS },
      { record: { done: index + 1 } },
    ]),
    { approve: { title: 'Publish the report?' } },
    { say: ', so it is published.' },
  ],
  suspend: true,
};

export async function crashAct(screen: Screen, stage: Stage): Promise<Theatre> {
  screen.heading('Starting a server and a worker process');
  const theatre = await openTheatre(screen, stage);
  const { client, server } = theatre;
  const workers = new Workers(theatre, screen, await stage.folder());
  await stage.hold(Promise.resolve(workers), () => workers.stop());
  await workers.start();
  stage.signal.throwIfAborted();

  screen.heading('Submitting an execution');
  const conversation = await client.createConversation();
  const { execution } = await client.startExecution({
    conversationId: conversation.id,
    providerId: PROVIDER,
    input: 'Publish the report.',
    config: JSON.parse(JSON.stringify(SCRIPT)),
  });
  await stage.hold(Promise.resolve(), () => giveUp(client, execution.id));
  screen.say(`${execution.id}: ${WORK.length} steps, each with an entry in its journal, then a question to a person.`);
  const page = uiPage(server.uiUrl, server.namespace, execution.id, client.tenant);
  if (page !== undefined) screen.say(`In the UI: ${page}`);
  screen.say('One client.events() iterator reads it from here to the end:\n');

  const events = await watch(client, execution.id, screen, stage, workers);

  screen.heading('What was lost');
  await prove(client, execution.id, events, workers.killed, screen);
  return theatre;
}

/** The worker process of the moment. */
class Workers {
  readonly killed: number[] = [];
  private current: WorkerProcess | undefined;

  constructor(
    private readonly theatre: Theatre,
    private readonly screen: Screen,
    private readonly folder: string,
  ) {}

  async start(): Promise<void> {
    this.current = await startWorkerProcess(this.theatre.server, WORKER, this.folder);
    this.screen.say(`Worker: process ${this.current.pid} takes work`);
  }

  async kill(when: string): Promise<void> {
    if (this.current === undefined) return;
    const { pid } = this.current;
    await this.current.kill();
    this.current = undefined;
    this.killed.push(pid);
    this.screen.loud(`kill -9 ${pid}: the worker is dead, ${when}`);
  }

  async stop(): Promise<void> {
    await this.current?.stop();
  }
}

async function watch(
  client: HoldfastClient,
  executionId: string,
  screen: Screen,
  stage: Stage,
  workers: Workers,
): Promise<HoldfastEvent[]> {
  const printer = new EventPrinter(screen);
  const events: HoldfastEvent[] = [];
  let text = '';
  for await (const event of client.events(executionId, { signal: stage.signal })) {
    events.push(event);
    printer.print(event);
    if (event.type === 'output.text.delta') text += event.data.text;
    if (workers.killed.length === 0 && text.includes(`Step ${DYING_STEP} of`)) {
      printer.flush();
      screen.heading('First kill: in the middle of its work');
      await workers.kill(`in step ${DYING_STEP} of ${WORK.length}`);
      screen.say(
        'Nobody tells the server. It notices that the heartbeats stop, asks once more, and after 4 s (30 s and 15 s ' +
          `unless set) hands the execution to another worker, with its journal: ${DYING_STEP - 1} steps are done.`,
      );
      await workers.start();
      stage.signal.throwIfAborted();
      screen.say('The same iterator reads on:\n');
    }
    if (event.type === 'action.required') {
      await delay(SUSPENDED_MS, undefined, { signal: stage.signal }).catch(() => stage.signal.throwIfAborted());
      screen.heading('Second kill: while a person is asked');
      screen.say('This provider suspends while it waits: no process holds the question, it may take a month.');
      await workers.kill('and no other is there');
      await client.respond(executionId, event.data.id, { approved: true });
      screen.say('The answer "yes" was accepted all the same: it is in the log, for whoever comes next.');
      await workers.start();
      stage.signal.throwIfAborted();
      screen.say('The same iterator reads on:\n');
    }
  }
  printer.flush();
  stage.signal.throwIfAborted();
  return events;
}

/** Compares what the one reader saw with the log as it is read afterwards. */
async function prove(
  client: HoldfastClient,
  executionId: string,
  seen: readonly HoldfastEvent[],
  killed: readonly number[],
  screen: Screen,
): Promise<void> {
  const { state, finalOutput = '' } = await client.getExecution(executionId);
  const { events: stored } = await client.listEvents(executionId, { limit: 10_000 });
  const checks: [claim: string, holds: boolean][] = [
    [`workers were killed with -9: ${killed.join(', ')}`, killed.length === 2],
    [
      `one iterator saw the sequence 1…${seen.length}, each number once and in order`,
      seen.every((event, index) => event.sequence === index + 1),
    ],
    ['the log, read again from its start, is the same', JSON.stringify(stored) === JSON.stringify(seen)],
    [
      'the finished steps were not done again, and the broken one once more from its beginning',
      seen.filter((event) => event.type === 'provider.event' && event.data.name === 'runtime.recovered').length === 1,
    ],
    [
      'the final output holds every step exactly once',
      WORK.every((work) => finalOutput.split(work).length === 2) && finalOutput.endsWith('it is published.'),
    ],
    ['the execution succeeded', state === 'succeeded'],
  ];
  for (const [claim, holds] of checks) screen.line(`${holds ? '✓' : '✗'} ${claim}`);
  screen.say(`\nFinal output: ${finalOutput}`);
  if (!checks.every(([, holds]) => holds))
    throw new HoldfastError('INTERNAL_ERROR', `the log of ${executionId} is not what it should be; see above`);
}

/** Interrupted: nothing runs any more that could go on. */
async function giveUp(client: HoldfastClient, executionId: string): Promise<void> {
  const { state } = await client.getExecution(executionId);
  if (['succeeded', 'failed', 'cancelled'].includes(state)) return;
  await client.cancel(executionId, 'the demo was interrupted');
}
