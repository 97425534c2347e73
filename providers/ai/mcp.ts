/** Tools of MCP servers, through the SDK's own client: connected when a run begins, closed when it ends. */
import type { CallToolResult, ListToolsResult, MCPClient } from '@ai-sdk/mcp';
import { HoldfastError } from '../../protocol/errors.js';
import { clip, type JsonObject } from '../../protocol/json.js';
import { secretValues } from '../process/environment.js';
import type { Redactor } from '../process/redact.js';
import { settledWithin } from '../process/wait.js';
import type { McpServer } from './mcp-options.js';
import { ProcessTransport } from './mcp-process.js';
import { fromEnvironment } from './models.js';
import type { RunnableTool, ToolOutput } from './tool.js';

const START_TIMEOUT_MS = 30_000;
const CLOSE_MS = 5000;
const MAX_WHAT = 1000;
const MAX_PAGES = 100;

export interface McpConnection {
  /** By the name that the model knows: the server's, `_`, the tool's. */
  readonly tools: ReadonlyMap<string, RunnableTool>;
  /** Ends it. True when a process had to be signalled. Never rejects. */
  close(): Promise<boolean>;
}

/** The secret values of a server. Throws `VALIDATION_ERROR` that names a variable which is not set. */
export function mcpSecrets(name: string, server: McpServer): string[] {
  if (server.type === 'stdio') return secretValues(server);
  return Object.values(server.headerEnv ?? {}).map((variable) => fromEnvironment(`mcpServers.${name}`, variable));
}

/**
 * Connects to a server and lists its tools. Rejects with a `PROVIDER_ERROR` that names the server, or with the signal's
 * reason; nothing is left behind then.
 */
export async function connectMcp(
  name: string,
  server: McpServer,
  redactor: Redactor,
  signal: AbortSignal,
): Promise<McpConnection> {
  const { createMCPClient, validateJSONRPCMessage } = await import('@ai-sdk/mcp');
  const limit = AbortSignal.timeout(server.startTimeoutMs ?? START_TIMEOUT_MS);
  const stop = AbortSignal.any([signal, limit]);
  const transport =
    server.type === 'stdio' ? new ProcessTransport(server, validateJSONRPCMessage) : httpTransport(name, server);
  let lost: string | undefined;
  let client: MCPClient | undefined;
  const close = async (): Promise<boolean> => {
    const closing = client?.close().catch(() => {}) ?? Promise.resolve();
    if (!(transport instanceof ProcessTransport)) {
      await settledWithin(closing, CLOSE_MS);
      return false;
    }
    return (await transport.stop()).forced;
  };
  try {
    client = await createMCPClient({
      transport,
      clientName: 'holdfast',
      initializationOptions: { signal: stop },
      onUncaughtError: (error) => {
        lost = error instanceof Error ? error.message : String(error);
      },
    });
    const wanted = (await listTools(client, stop)).filter((tool) => server.tools?.includes(tool.name) ?? true);
    const callable = client.toolsFromDefinitions({ tools: wanted });
    const tools = new Map<string, RunnableTool>();
    for (const { name: tool, description = '', inputSchema } of wanted) {
      const execute = callable[tool]?.execute;
      if (execute === undefined) continue;
      const shown = `${name}_${tool.replace(/[^a-zA-Z0-9_-]/g, '_')}`.slice(0, 64);
      if (tools.has(shown)) throw new Error(`two of its tools would be called ${shown}`);
      tools.set(shown, {
        description,
        inputSchema: inputSchema as JsonObject,
        idempotent: server.idempotent?.includes(tool) ?? false,
        timeoutMs: undefined,
        // The server checks its own input.
        problem: async () => undefined,
        parsed: async (input) => input,
        needsApproval: async (input) => {
          const { needsApproval = true } = server;
          return typeof needsApproval === 'boolean' ? needsApproval : await needsApproval(tool, input);
        },
        execute: async (input, call) => {
          const options = { toolCallId: call.callId, messages: [], abortSignal: call.signal };
          return outputOf((await execute(input, options)) as CallToolResult);
        },
      });
    }
    return { tools, close };
  } catch (error) {
    await close();
    signal.throwIfAborted();
    const said = limit.aborted
      ? 'did not tell its tools in time'
      : error instanceof Error
        ? error.message
        : String(error);
    const what = lost === undefined || said.includes(lost) ? said : `${said} (${lost})`;
    throw new HoldfastError('PROVIDER_ERROR', clip(redactor.text(`MCP server "${name}": ${what}`), MAX_WHAT));
  }
}

async function listTools(client: MCPClient, signal: AbortSignal): Promise<ListToolsResult['tools']> {
  const tools: ListToolsResult['tools'] = [];
  let cursor: string | undefined;
  for (let page = 0; page < MAX_PAGES; page++) {
    const params = cursor === undefined ? {} : { params: { cursor } };
    const listed = await client.listTools({ ...params, options: { signal } });
    tools.push(...listed.tools);
    cursor = listed.nextCursor;
    if (cursor === undefined) return tools;
  }
  throw new Error(`its list of tools has more than ${MAX_PAGES} pages`);
}

function httpTransport(name: string, server: Extract<McpServer, { type: 'http' }>) {
  const secret = Object.entries(server.headerEnv ?? {}).map(([key, variable]) => [
    key,
    fromEnvironment(`mcpServers.${name}`, variable),
  ]);
  const headers: Record<string, string> = { ...server.headers, ...Object.fromEntries(secret) };
  return { type: 'http' as const, url: server.url, headers, redirect: 'error' as const };
}

/** Text as text; what is none is named, with its type and size. */
function outputOf(result: CallToolResult): ToolOutput {
  if (!('content' in result) || !Array.isArray(result.content))
    return { output: JSON.stringify(result), isError: false };
  const parts = result.content.map((part) => {
    if (part.type === 'text' && typeof part.text === 'string') return part.text;
    const { mimeType, data, uri } = part as { mimeType?: unknown; data?: unknown; uri?: unknown };
    const size = typeof data === 'string' ? `, ${data.length} characters of base64` : '';
    return `[${part.type}${mimeType === undefined ? '' : ` ${mimeType}`}${uri === undefined ? '' : ` ${uri}`}${size}]`;
  });
  return { output: parts.join('\n'), isError: result.isError === true };
}
