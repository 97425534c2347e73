#!/usr/bin/env node
/** The command `holdfast`. What a subcommand needs is loaded when it is called, so that `--help` takes no second. */
import { Command } from 'commander';
import { VERSION } from '../protocol/version.js';
import type { ClusterFlags } from './cluster.js';
import type { DemoFlags } from './demo/demo.js';
import { report } from './failure.js';
import type { WorkerFlags } from './worker.js';

const say = (line: string): void => void process.stdout.write(`${line}\n`);

const holdfast = new Command('holdfast')
  .description('A durable runtime for agent-harness executions, on Temporal.')
  .version(VERSION)
  .exitOverride()
  // What goes wrong is said once, by `report`.
  .configureOutput({ outputError: () => undefined })
  .showSuggestionAfterError();

holdfast
  .command('setup')
  .description('register the search attributes that Holdfast needs in a namespace; does no harm when repeated')
  .option('--address <host:port>', 'the Temporal frontend (TEMPORAL_ADDRESS, else localhost:7233)')
  .option('--namespace <name>', 'the namespace (TEMPORAL_NAMESPACE, else default)')
  .action(async (flags: ClusterFlags) => {
    const [{ setUp }, { clusterOf }] = await Promise.all([import('./setup.js'), import('./cluster.js')]);
    await setUp(clusterOf(flags), say);
  });

holdfast
  .command('worker')
  .description('run a worker with the providers that a configuration file names')
  .option('--config <file>', 'the configuration, in JSON', 'holdfast.config.json')
  .option('--address <host:port>', 'the Temporal frontend (TEMPORAL_ADDRESS, else what the file says)')
  .option('--namespace <name>', 'the namespace (TEMPORAL_NAMESPACE, else what the file says)')
  .option('--ready-file <file>', 'write this file when the worker is ready, remove it when it stops')
  .action(async (flags: WorkerFlags) => {
    const { runWorker } = await import('./worker.js');
    await runWorker(flags, say);
  });

holdfast
  .command('demo')
  .description('run a real coding agent once, with a server, a worker and a client, all by itself')
  .option('--crash', 'instead kill workers with kill -9 in mid-run, and lose nothing')
  .option('--keep', 'stay up until Ctrl-C, to look around in the Temporal UI')
  .option('--local-model', 'take the scripted model although a key for a real one is set')
  .action(async (flags: DemoFlags) => {
    const { demo } = await import('./demo/demo.js');
    await demo(flags);
  });

holdfast.on('command:*', ([name]: [string]) => {
  const commands = holdfast.commands.map((command) => command.name()).join(', ');
  holdfast.error(`unknown command ${JSON.stringify(name)}; there is: ${commands}`, { exitCode: 2 });
});

try {
  await holdfast.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}
