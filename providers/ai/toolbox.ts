/** All tools of one run: those of the worker, and those of its MCP servers. */
import type { ToolSet } from 'ai';
import { HoldfastError } from '../../protocol/errors.js';
import { clip } from '../../protocol/json.js';
import type { Redactor } from '../process/redact.js';
import { connectMcp, type McpConnection } from './mcp.js';
import { type AiConfig, deadRule, type ResolvedOptions } from './options.js';
import type { RunnableTool } from './tool.js';

const MAX_MESSAGE = 1000;

export class Toolbox {
  readonly #tools: ReadonlyMap<string, RunnableTool>;
  readonly #connections: readonly McpConnection[];

  private constructor(tools: ReadonlyMap<string, RunnableTool>, connections: readonly McpConnection[]) {
    this.#tools = tools;
    this.#connections = connections;
  }

  /**
   * Brings together what the request may use. Rejects with a `PROVIDER_ERROR` that names an MCP server which does not
   * come up or has no tool that a rule is about, or with the signal's reason; nothing is left behind then.
   */
  static async open(
    options: ResolvedOptions,
    registered: ReadonlyMap<string, RunnableTool>,
    config: AiConfig,
    redactor: Redactor,
    signal: AbortSignal,
  ): Promise<Toolbox> {
    const chosen = Object.entries(options.mcpServers).filter(([name]) => config.mcpServers?.includes(name) ?? true);
    const settled = await Promise.allSettled(
      chosen.map(([name, server]) => connectMcp(name, server, redactor, signal)),
    );
    const connections = settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    try {
      for (const one of settled) if (one.status === 'rejected') throw one.reason;
      const tools = new Map([...registered].filter(([name]) => config.tools?.includes(name) ?? true));
      for (const [name, tool] of connections.flatMap((connection) => [...connection.tools])) {
        if (tools.has(name)) throw new HoldfastError('PROVIDER_ERROR', `two tools are called "${name}"`);
        tools.set(name, tool);
      }
      const told = chosen.map(([name], index) => [name, [...(connections[index]?.tools.keys() ?? [])]] as const);
      const dead = deadRule(options, new Map(told));
      if (dead !== undefined) throw new HoldfastError('PROVIDER_ERROR', clip(`aiProvider: ${dead}`, MAX_MESSAGE));
      return new Toolbox(tools, connections);
    } catch (error) {
      await closeAll(connections);
      throw error;
    }
  }

  get(name: string): RunnableTool | undefined {
    return this.#tools.get(name);
  }

  get names(): string[] {
    return [...this.#tools.keys()];
  }

  /** As the SDK takes them: described, and not to be run by it. What the model sends is checked here, not there. */
  async forModel(): Promise<ToolSet> {
    const { jsonSchema, tool } = await import('ai');
    const described = [...this.#tools].map(([name, { description, inputSchema }]) => [
      name,
      tool({ description, inputSchema: jsonSchema(inputSchema) }),
    ]);
    return Object.fromEntries(described) as ToolSet;
  }

  /** True when a process had to be signalled. Never rejects. */
  close(): Promise<boolean> {
    return closeAll(this.#connections);
  }
}

async function closeAll(connections: readonly McpConnection[]): Promise<boolean> {
  const forced = await Promise.all(connections.map((connection) => connection.close()));
  return forced.includes(true);
}
