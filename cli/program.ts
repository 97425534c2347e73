/** The command line: which commands there are and what each takes. What they do is loaded when they are called. */
import { Command, Option } from 'commander';
import { executionStateSchema } from '../protocol/lifecycle.js';
import { VERSION } from '../protocol/version.js';
import { collect, moment, wholeNumber } from './arguments.js';
import type { AnswerFlags, DecideFlags, InboxFlags } from './commands/actions.js';
import type { ConversationsFlags, CreateFlags } from './commands/catalog.js';
import { SHELLS, type Shell } from './commands/completion.js';
import type { DevFlags } from './commands/dev.js';
import type { CancelFlags, ListFlags } from './commands/executions.js';
import type { RunFlags } from './commands/run.js';
import type { ServeFlags } from './commands/serve.js';
import type { WatchFlags } from './commands/watch.js';
import type { WorkerFlags } from './commands/worker.js';
import type { DemoFlags } from './demo/demo.js';
import type { CommonFlags } from './session.js';

type Exit = number | undefined;
const port = wholeNumber(0, 65_535);
const EXIT_CODES = `
Exit codes: 0 done, or the execution succeeded; 1 failed; 2 wrong usage; 3 cancelled; 4 waits for an answer; 130 left by
Ctrl-C. Configuration: flags, then the environment (TEMPORAL_*, HOLDFAST_*), then holdfast.config.ts or .json.`;

/** @param ended gets the exit code of the command that ran */
export function createProgram(ended: (code: Exit) => void): Command {
  const program = new Command('holdfast')
    .description('A durable runtime for agent-harness executions, on Temporal.')
    .version(VERSION)
    .exitOverride()
    // What goes wrong is said once, by `report`.
    .configureOutput({ outputError: () => undefined })
    .showSuggestionAfterError()
    .addHelpText('after', EXIT_CODES);
  const add = (name: string, description: string): Command => program.command(name).description(description);
  addProcesses(add, ended);
  addExecutions(add, ended);
  addActions(add, ended);
  addCatalog(add, ended);
  add('completion', 'print a script that completes commands and flags in a shell')
    .addArgument(program.createArgument('<shell>', 'which one').choices(SHELLS))
    .action(async (shell: Shell) => {
      const { completionScript } = await import('./commands/completion.js');
      process.stdout.write(completionScript(shell, program));
    });
  program.on('command:*', ([name]: [string]) => {
    const commands = program.commands.map((command) => command.name()).join(', ');
    program.error(`unknown command ${JSON.stringify(name)}; there is: ${commands}`, { exitCode: 2 });
  });
  return program;
}

type Add = (name: string, description: string) => Command;
type Ended = (code: Exit) => void;

/** What every command with a cluster takes. */
function connected(command: Command): Command {
  return configured(command)
    .option('--address <host:port>', 'the Temporal frontend (TEMPORAL_ADDRESS, else the file, else localhost:7233)')
    .option('--namespace <name>', 'the namespace (TEMPORAL_NAMESPACE, else the file, else default)')
    .option('--profile <name>', "a profile of Temporal's TOML file (TEMPORAL_PROFILE)");
}

function configured(command: Command): Command {
  return command
    .option('--config <file>', 'the configuration (HOLDFAST_CONFIG, else holdfast.config.ts or .json in this folder)')
    .option('--json', 'print JSON, a line for each thing');
}

function forTenant(command: Command): Command {
  return ofTenant(connected(command));
}

function ofTenant(command: Command): Command {
  return command.option('--tenant <id>', 'whose executions (HOLDFAST_TENANT, else the file, else default)');
}

function forGateway(command: Command): Command {
  return command
    .option('--host <address>', 'where the gateway listens (HOLDFAST_HOST, else 127.0.0.1)')
    .option(
      '--insecure',
      'listen beyond this machine without HOLDFAST_API_TOKENS, for who calls by address or by an allowed host',
    )
    .option('--allow-host <name>', 'a name that the Host header may have; may be repeated', collect)
    .option('--origin <origin>', 'a site whose pages may call; may be repeated', collect)
    .option('--access-log', 'a line of JSON for each request, on standard error');
}

function addProcesses(add: Add, ended: Ended): void {
  forGateway(ofTenant(configured(add('dev', 'server, UI, worker and gateway in one, for development'))))
    .option('--port <port>', 'of the Temporal server; 0 for any (7233)', port)
    .option('--ui-port <port>', 'of the Temporal UI; 0 for any (8233)', port)
    .option('--gateway-port <port>', 'of the gateway; 0 for any (4310)', port)
    .option('--db <file>', 'keep the state in this file; without it, it is gone at the end')
    .action(async (flags: DevFlags) => ended(await (await import('./commands/dev.js')).dev(flags)));
  connected(
    add('setup', 'register the search attributes that Holdfast needs in a namespace; does no harm when repeated'),
  ).action(async (flags: CommonFlags) => ended(await (await import('./commands/setup.js')).setup(flags)));
  connected(add('worker', 'run a worker with the providers that the configuration names'))
    .option('--provider <id>', 'only this provider; may be repeated', collect)
    .option('--ready-file <file>', 'write this file when the worker is ready, remove it when it stops')
    .action(async (flags: WorkerFlags) => ended(await (await import('./commands/worker.js')).worker(flags)));
  forGateway(forTenant(add('serve', 'run the HTTP gateway')))
    .option('--port <port>', 'where it listens; 0 for any (HOLDFAST_PORT, else 4310)', port)
    .action(async (flags: ServeFlags) => ended(await (await import('./commands/serve.js')).serve(flags)));
  add('demo', 'run a real coding agent once, with a server, a worker and a client, all by itself')
    .option('--crash', 'instead kill workers with kill -9 in mid-run, and lose nothing')
    .option('--keep', 'stay up until Ctrl-C, to look around in the Temporal UI')
    .option('--local-model', 'take the scripted model although a key for a real one is set')
    .action(async (flags: DemoFlags) => await (await import('./demo/demo.js')).demo(flags));
  forTenant(add('doctor', 'look at everything an execution needs, and say what to do about what is missing')).action(
    async (flags: CommonFlags) => ended(await (await import('./commands/doctor.js')).doctor(flags)),
  );
}

function answering(command: Command): Command {
  return command
    .option('--approve', 'say yes to every approval')
    .option('--reject', 'say no to every approval')
    .option('--wait', 'ask nobody here: wait until it is answered elsewhere')
    .option('-q, --quiet', 'print the final output alone');
}

function addExecutions(add: Add, ended: Ended): void {
  const run = add('run', 'start an execution and show it to its end; Ctrl-C cancels it, twice leaves it to itself');
  answering(forTenant(run.argument('<prompt>', 'the input; - reads it from standard input')))
    .option('-p, --provider <id>', 'which one; needed when there are several')
    .option('-c, --conversation <id>', 'the conversation it belongs to; without it, a new one')
    .option('--provider-config <json>', "the provider's configuration of this run; @file reads it from a file")
    .option('--metadata <json>', 'kept with it; @file reads it from a file')
    .option('--require <capability>', 'refuse a provider without it; may be repeated', collect)
    .option('--prefer <capability>', 'told about in run.started when it lacks it; may be repeated', collect)
    .option('--timeout <seconds>', 'fail it after so long, waits included', wholeNumber(1))
    .option('--key <key>', 'the same key in the same conversation returns the same execution')
    .addOption(
      new Option('--on-busy <what>', 'when its conversation is busy').choices(['queue', 'reject', 'interrupt']),
    )
    .option('-d, --detach', 'print its id and leave it to itself')
    .action(async (prompt: string, flags: RunFlags) =>
      ended(await (await import('./commands/run.js')).run(prompt, flags)),
    );
  forTenant(add('ls', 'list executions, newest first'))
    .addOption(new Option('--state <state>', 'only in this state').choices(executionStateSchema.options))
    .option('-p, --provider <id>', 'only of this provider')
    .option('-c, --conversation <id>', 'only of this conversation')
    .option('--since <time>', 'created after: ISO 8601, or an age such as 15m, 2h, 7d', moment)
    .option('--before <time>', 'created before', moment)
    .option('-n, --limit <count>', 'at most so many', wholeNumber(1), 20)
    .option('--all', 'all of them')
    .action(async (flags: ListFlags) => ended(await (await import('./commands/executions.js')).list(flags)));
  forTenant(add('show', 'what an execution is, asks, made and said').argument('<id>', 'the execution')).action(
    async (id: string, flags: CommonFlags) => ended(await (await import('./commands/executions.js')).show(id, flags)),
  );
  answering(
    forTenant(add('watch', 'follow an execution to its end; Ctrl-C only leaves').argument('<id>', 'the execution')),
  )
    .option('--after <sequence>', 'from after this event on', wholeNumber(0), 0)
    .option('--ask', 'put its questions to you here')
    .action(async (id: string, flags: WatchFlags) =>
      ended(await (await import('./commands/watch.js')).watch(id, flags)),
    );
  forTenant(add('cancel', 'cancel an execution and wait until it is confirmed').argument('<id>', 'the execution'))
    .option('--reason <text>', 'kept in its log')
    .option('--no-wait', 'only ask for it')
    .action(async (id: string, flags: CancelFlags) =>
      ended(await (await import('./commands/executions.js')).cancel(id, flags)),
    );
}

function addActions(add: Add, ended: Ended): void {
  const onAction = (name: string, description: string): Command =>
    forTenant(
      add(name, description)
        .argument('<id>', 'the execution')
        .argument('[action]', 'the action; without it, the one that is open'),
    )
      .option('--response-id <id>', 'names this answer: repeated with the same, it gives the first outcome')
      .option('--digest <sha256>', 'of the payload that was decided on; an action with another is not answered');
  forTenant(add('inbox', 'what waits for a person, across executions, the oldest first'))
    .option('-n, --limit <count>', 'at most so many', wholeNumber(1, 1_000), 20)
    .action(async (flags: InboxFlags) => ended(await (await import('./commands/actions.js')).inbox(flags)));
  for (const [name, approved] of [['approve', true] as const, ['reject', false] as const])
    onAction(name, `${approved ? 'say yes' : 'say no'} to an approval`)
      .option('--option <id>', 'which of the options that it offers')
      .action(async (id: string, action: string | undefined, flags: DecideFlags) =>
        ended(await (await import('./commands/actions.js')).decide(approved, id, action, flags)),
      );
  onAction('answer', 'answer what an execution asks')
    .option('--text <text>', 'the answer as text; - reads it from standard input')
    .option('--value <json>', 'the answer as JSON; @file reads it from a file')
    .action(async (id: string, action: string | undefined, flags: AnswerFlags) =>
      ended(await (await import('./commands/actions.js')).answer(id, action, flags)),
    );
}

function addCatalog(add: Add, ended: Ended): void {
  forTenant(add('providers', 'the providers that workers announced, and what each can do')).action(
    async (flags: CommonFlags) => ended(await (await import('./commands/catalog.js')).providers(flags)),
  );
  // A command with subcommands would take their flags for its own.
  const conversations = add('conversations', 'list, create and close conversations');
  forTenant(
    conversations
      .command('ls', { isDefault: true })
      .description('list them: those that are open, newest first, then the closed ones'),
  )
    .option('--open', 'only those that take executions')
    .option('-n, --limit <count>', 'at most so many', wholeNumber(1, 1_000), 20)
    .action(async (flags: ConversationsFlags) =>
      ended(await (await import('./commands/catalog.js')).conversations(flags)),
    );
  forTenant(conversations.command('create').description('create one and print its id'))
    .option('--metadata <json>', 'kept with it; @file reads it from a file')
    .option('--close-after-idle-days <days>', 'close it when nothing happened for so long', wholeNumber(1))
    .action(async (flags: CreateFlags) =>
      ended(await (await import('./commands/catalog.js')).createConversation(flags)),
    );
  forTenant(
    conversations
      .command('close')
      .description('end one: what waits in it is cancelled')
      .argument('<id>', 'the conversation'),
  ).action(async (id: string, flags: CommonFlags) =>
    ended(await (await import('./commands/catalog.js')).closeConversation(id, flags)),
  );
}
