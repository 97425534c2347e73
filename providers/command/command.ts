/**
 * Any program that reads a prompt on its standard input and writes text or NDJSON events on its standard output, one
 * process per execution. The process and everything it started are gone when `run` settles, however it ends.
 *
 * @example
 * commandProvider({
 *   commands: {
 *     reviewer: { command: '/opt/reviewer/bin/review', args: ['--stdin'], workspace: 'shop', output: 'text' },
 *   },
 *   workspaces: { shop: '/srv/shop' },
 * });
 */
import { type CapabilityLevel, PROTOCOL_VERSION, type ProviderManifest } from '../../protocol/manifest.js';
import { warnOfMissing } from '../process/installed.js';
import type { Provider } from '../provider.js';
import { foldersOf } from '../workspace/options.js';
import { Workspaces } from '../workspace/workspaces.js';
import {
  type CommandConfig,
  type CommandOptions,
  configSchema,
  type ResolvedOptions,
  resolveOptions,
} from './options.js';
import { runCommand } from './run.js';

export type { CommandConfig, CommandOptions } from './options.js';

const COMMAND_PROVIDER_VERSION = '1.0.0';

/**
 * A provider for the commands that `options` names. Throws `VALIDATION_ERROR` when they are wrong.
 *
 * An execution's `input` is a string, `{ text }` or `{ prompt: [{ type: 'text', text }, …] }`; its `config` names a
 * command and a workspace (`CommandConfig`). A failure of the command is a `PROVIDER_ERROR` that says what happened and
 * ends with the last of its standard error.
 */
export function commandProvider(options: CommandOptions): Provider<CommandConfig> {
  const resolved = resolveOptions(options);
  const workspaces = new Workspaces(resolved.workspaces, resolved.workspaceRoot);
  return {
    manifest: manifestOf(resolved, workspaces.areKept),
    config: configSchema(resolved),
    recovery: 'none',
    start: async (host) => {
      await warnOfMissing(host, resolved.id, 'commands', resolved.commands, foldersOf(resolved.workspaces));
      return await workspaces.start(host);
    },
    run: (ctx) => runCommand(ctx, resolved, workspaces),
  };
}

function manifestOf(options: ResolvedOptions, takesTurns: boolean): ProviderManifest {
  const commands = Object.values(options.commands);
  const asking = level(commands.map((command) => command.input === 'ndjson'));
  return {
    id: options.id,
    name: options.name,
    version: COMMAND_PROVIDER_VERSION,
    protocolVersion: PROTOCOL_VERSION,
    topologies: ['subprocess'],
    capabilities: {
      'action.approval': asking,
      'action.input': asking,
      'artifact.list': level(commands.map((command) => command.output === 'ndjson')),
      // The files go on; what was said is the command's own matter.
      'conversation.continuity': takesTurns ? 'degraded' : 'unsupported',
      'event.replay': 'native',
      'event.streaming': 'native',
      'execution.cancel': 'native',
      'extension.mcp': 'unsupported',
      'extension.sandbox': 'unsupported',
      'extension.skills': 'unsupported',
      'extension.subagents': 'unsupported',
    },
    metadata: { commands: Object.keys(options.commands), workspaces: Object.keys(options.workspaces) },
  };
}

/** What only some of the commands can do is there, but not to be counted on. */
function level(able: readonly boolean[]): CapabilityLevel {
  if (able.every(Boolean)) return 'native';
  return able.some(Boolean) ? 'degraded' : 'unsupported';
}
