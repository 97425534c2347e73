/** The first act: a real coding agent does one thing, and asks before it does it. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { cacheFolder } from '../../dev/cache.js';
import { openCodeAgent, resolveOpenCode } from '../../dev/opencode.js';
import type { ActionRequest } from '../../protocol/action.js';
import { HoldfastError } from '../../protocol/errors.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import { acpProvider } from '../../providers/acp/acp.js';
import { createWorker } from '../../worker/worker.js';
import { EventPrinter } from '../event-printer.js';
import { confirm, hasTerminal } from '../question.js';
import type { Screen } from '../screen.js';
import type { Stage } from '../stage.js';
import { oneLine } from '../text.js';
import { uiPage } from '../ui-page.js';
import { chooseModel } from './model.js';
import { openTheatre, progress, type Theatre } from './theatre.js';

const PROVIDER = 'demo-opencode';
const PROMPT = 'Run `echo hello from the local model` in the shell and tell me what it printed.';
/** For an execution that is given up to end properly, in milliseconds. */
const CANCEL_MS = 5_000;

export async function agentAct(
  screen: Screen,
  stage: Stage,
  { localModel }: { localModel: boolean },
): Promise<Theatre> {
  screen.heading('Starting what an execution needs');
  const scratch = await stage.folder();
  const onProgress = progress(screen, stage);
  const opencode = await stage.download(resolveOpenCode({ env: scratchEnvironment(scratch), onProgress }));
  const theatre = await openTheatre(screen, stage);
  const { server, client } = theatre;
  const model = await chooseModel(screen, stage, localModel);
  const provider = acpProvider({
    id: PROVIDER,
    name: 'OpenCode',
    agents: { opencode: await agent(scratch, opencode, model) },
  });
  await stage.hold(
    createWorker({
      address: server.address,
      namespace: server.namespace,
      providers: [provider],
      handleSignals: false,
      log: (level, message) => {
        if (level === 'warn' || level === 'error') screen.quiet(`${level}: ${message}`);
      },
    }),
    (worker) => worker.shutdown({ drainMs: 0 }),
  );
  screen.say(`Worker: this process, with OpenCode ${opencode.version} as provider "${PROVIDER}"`);

  screen.heading('Submitting an execution');
  screen.say(`"${PROMPT}"`);
  const conversation = await client.createConversation();
  const { execution } = await client.startExecution({
    conversationId: conversation.id,
    providerId: PROVIDER,
    input: PROMPT,
    requiredCapabilities: ['action.approval'],
  });
  await stage.hold(Promise.resolve(), () => giveUp(theatre, execution.id));
  screen.say(`${execution.id} is a workflow now: it is safe in Temporal, whatever becomes of this process.`);
  const page = uiPage(server.uiUrl, server.namespace, execution.id, client.tenant);
  if (page !== undefined) screen.say(`In the UI: ${page}`);

  screen.heading('Its log, as it grows');
  screen.say('Each event has a sequence number. A reader can leave and come back at any of them.\n');
  await watch(theatre, execution.id, screen, stage);

  screen.heading('Outcome');
  const ended = await client.getExecution(execution.id);
  screen.say(`${ended.state} after ${ended.startedAt === undefined ? '?' : seconds(ended.startedAt, ended.endedAt)} s`);
  if (ended.error !== undefined)
    throw new HoldfastError('PROVIDER_ERROR', `${ended.error.code}: ${ended.error.message}`);
  for (const line of (ended.finalOutput ?? '').split('\n')) screen.line(`│ ${line}`);
  return theatre;
}

/** For asking OpenCode its version: even that makes folders in the home and in the temporary folder that it is told. */
function scratchEnvironment(scratch: string): NodeJS.ProcessEnv {
  const names = ['TMPDIR', 'XDG_DATA_HOME', 'XDG_CONFIG_HOME', 'XDG_STATE_HOME', 'XDG_CACHE_HOME'];
  const places = Object.fromEntries(names.map((name) => [name, scratch]));
  return { ...process.env, ...places, HOLDFAST_CACHE_DIR: cacheFolder() };
}

/** OpenCode with a workspace and a home of its own, which are gone after the run. */
async function agent(
  scratch: string,
  opencode: { command: string },
  model: Parameters<typeof openCodeAgent>[0]['model'],
) {
  const place = { workspace: join(scratch, 'workspace'), home: join(scratch, 'home'), tmp: join(scratch, 'tmp') };
  for (const folder of Object.values(place)) await mkdir(folder);
  const { command, args, cwd, env, secrets } = openCodeAgent({ command: opencode.command, ...place, model });
  const isSecret = ([, value]: [string, string]): boolean => secrets.includes(value);
  const variables = Object.entries({ ...env, TMPDIR: place.tmp, DEMO_MODEL_KEY: model.apiKey });
  return {
    command,
    args,
    cwd,
    env: Object.fromEntries(variables.filter((entry) => !isSecret(entry))),
    secretEnv: Object.fromEntries(variables.filter(isSecret)),
  };
}

/** Prints the events to the last one, and has each question answered. */
async function watch({ client, server }: Theatre, executionId: string, screen: Screen, stage: Stage): Promise<void> {
  const printer = new EventPrinter(screen);
  const events = client.events(executionId, { signal: stage.signal });
  let next = events.next();
  for (;;) {
    const { done, value: event } = await next;
    if (done) break;
    printer.print(event);
    next = events.next();
    if (event.type === 'action.required') {
      const { approved, by } = await decide(event.data, next, screen, stage, server.uiUrl !== undefined);
      if (approved === undefined) continue;
      if (by !== undefined) screen.say(by);
      await client.respond(executionId, event.data.id, { approved }).catch((error) => {
        if (!(error instanceof HoldfastError && error.code === 'ACTION_ALREADY_RESOLVED')) throw error;
        screen.say('It was answered elsewhere in the meantime.');
      });
    }
  }
  printer.flush();
  stage.signal.throwIfAborted();
}

/** What the person says, or undefined when the log goes on without: it was answered elsewhere, or is not asked any more. */
async function decide(
  action: ActionRequest,
  goesOn: Promise<IteratorResult<HoldfastEvent>>,
  screen: Screen,
  stage: Stage,
  ui: boolean,
): Promise<{ approved?: boolean; by?: string }> {
  screen.heading('The agent asks for permission');
  screen.line(`│ ${commandOf(action) ?? oneLine(action.title)}`);
  screen.say('The question is in the log too, so it can wait for days, and through restarts of the server.');
  if (!hasTerminal()) return { approved: true, by: 'There is no terminal to ask at: the demo says yes by itself.\n' };
  if (ui) screen.say("Answer here, or send the signal that the UI shows under the workflow's details.");
  const over = new AbortController();
  const elsewhere = goesOn.then(
    () => over.abort(),
    () => over.abort(),
  );
  try {
    const asking = { ...stage.asking, signal: AbortSignal.any([stage.signal, over.signal]) };
    return { approved: await confirm('   May it?', asking) };
  } catch (error) {
    stage.signal.throwIfAborted();
    if (!over.signal.aborted) throw error;
    await elsewhere;
    screen.say('It was answered elsewhere.');
    return {};
  }
}

function commandOf({ payload }: ActionRequest): string | undefined {
  const call = field(payload, 'toolCall');
  const command = field(field(call, 'rawInput'), 'command');
  return typeof command === 'string' ? `$ ${oneLine(command)}` : undefined;
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}

/** Whoever leaves early does not leave an agent at work: it is cancelled, and its end is on record. */
async function giveUp({ client }: Theatre, executionId: string): Promise<void> {
  const { state } = await client.getExecution(executionId);
  if (['succeeded', 'failed', 'cancelled'].includes(state)) return;
  await client.cancel(executionId, 'the demo was interrupted');
  await client.waitForTerminal(executionId, { timeoutMs: CANCEL_MS });
}

function seconds(from: string, to: string | undefined): string {
  return ((Date.parse(to ?? from) - Date.parse(from)) / 1000).toFixed(1);
}
