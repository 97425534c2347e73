/**
 * Any agent that speaks the Agent Client Protocol (version 1) on its standard input and output, one process per
 * execution. The process, its group and everything it started are gone when `run` settles, however it ends.
 *
 * @example
 * acpProvider({
 *   agents: {
 *     opencode: { command: '/opt/opencode/bin/opencode', args: ['acp'], workspace: 'shop', passEnv: ['PATH', 'HOME'] },
 *   },
 *   workspaces: { shop: '/srv/shop' },
 * });
 */
import { PROTOCOL_VERSION, type ProviderManifest } from '../../protocol/manifest.js';
import { warnOfMissing } from '../process/installed.js';
import type { Provider } from '../provider.js';
import { foldersOf } from '../workspace/options.js';
import { Workspaces } from '../workspace/workspaces.js';
import { type AcpConfig, type AcpOptions, configSchema, type ResolvedOptions, resolveOptions } from './options.js';
import { ACP_PROVIDER_VERSION, runAgent } from './run.js';

export type { AcpConfig, AcpOptions } from './options.js';

/**
 * A provider for the agents that `options` names. Throws `VALIDATION_ERROR` when they are wrong.
 *
 * An execution's `input` is a string, `{ text }` or `{ prompt: [block, …] }` with text, images and files of the
 * workspace; its `config` names an agent, a workspace, a mode and MCP servers (`AcpConfig`). A failure of the agent is a `PROVIDER_ERROR` that says what happened
 * and ends with the last of its standard error.
 */
export function acpProvider(options: AcpOptions): Provider<AcpConfig> {
  const resolved = resolveOptions(options);
  const workspaces = new Workspaces(resolved.workspaces, resolved.workspaceRoot);
  return {
    manifest: manifestOf(resolved),
    config: configSchema(resolved),
    recovery: 'none',
    start: async (host) => {
      await warnOfMissing(host, resolved.id, 'agents', resolved.agents, foldersOf(resolved.workspaces));
      return await workspaces.start(host);
    },
    run: (ctx) => runAgent(ctx, resolved, workspaces),
  };
}

function manifestOf(options: ResolvedOptions): ProviderManifest {
  return {
    id: options.id,
    name: options.name,
    version: ACP_PROVIDER_VERSION,
    protocolVersion: PROTOCOL_VERSION,
    topologies: ['subprocess'],
    capabilities: {
      'action.approval': 'native',
      'action.input': 'unsupported',
      'artifact.list': makesArtifacts(options) ? 'native' : 'unsupported',
      'conversation.continuity': options.continuity === 'none' ? 'unsupported' : options.continuity,
      'event.replay': 'native',
      'event.streaming': 'native',
      'execution.cancel': 'native',
      'extension.mcp': Object.keys(options.mcpServers).length > 0 ? 'native' : 'unsupported',
      'extension.sandbox': 'unsupported',
      'extension.skills': 'unsupported',
      'extension.subagents': 'unsupported',
    },
    metadata: {
      agents: Object.keys(options.agents),
      workspaces: Object.keys(options.workspaces),
      mcpServers: Object.keys(options.mcpServers),
    },
  };
}

function makesArtifacts({ artifacts, workspaces }: ResolvedOptions): boolean {
  return artifacts.files || artifacts.diffs || Object.values(workspaces).some(({ kind }) => kind === 'git');
}
