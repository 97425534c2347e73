/** MCP servers that an agent gets with its session: named by the worker's configuration, picked by name. */
import { z } from 'zod';
import { HoldfastError } from '../../protocol/errors.js';
import { secretValues } from '../process/environment.js';
import { programFields, secret, variable } from '../process/options.js';

const header = z.string().regex(/^[A-Za-z0-9-]+$/, 'is no name of a header');
const remoteFields = {
  url: z.url({ protocol: /^https?$/, error: 'must be an http or https address' }),
  headers: z.record(header, z.string()).optional(),
  /** Headers whose values are secret: name of the header to name of the variable of ours that holds it. */
  headerEnv: z.record(header, variable).optional(),
};

export const mcpServerSchema = z.discriminatedUnion('type', [
  /** Started by the agent, in its workspace. */
  z.strictObject({ type: z.literal('stdio'), ...programFields }),
  z.strictObject({ type: z.literal('http'), ...remoteFields }),
  z.strictObject({ type: z.literal('sse'), ...remoteFields }),
]);
export type McpServer = z.output<typeof mcpServerSchema>;

/** A server as the protocol's session requests take it. */
export interface WireServer {
  readonly type?: 'http' | 'sse';
  readonly name: string;
  readonly [field: string]: unknown;
}

export interface ChosenServers {
  readonly wire: readonly WireServer[];
  /** To be redacted from all that the agent says. */
  readonly secrets: readonly string[];
}

const pairs = (fields: Readonly<Record<string, string>>) =>
  Object.entries(fields).map(([name, value]) => ({ name, value }));

/** The named servers. Throws `VALIDATION_ERROR` for a variable that is not set here. */
export function chooseServers(
  servers: Readonly<Record<string, McpServer>>,
  names: readonly string[],
  ours: Readonly<Record<string, string | undefined>> = process.env,
): ChosenServers {
  const secrets: string[] = [];
  const wire = names.flatMap((name): WireServer[] => {
    const server = Object.hasOwn(servers, name) ? servers[name] : undefined;
    if (server === undefined) return [];
    if (server.type === 'stdio') {
      const passed = (server.passEnv ?? []).flatMap((key) => (ours[key] === undefined ? [] : [[key, ours[key]]]));
      secrets.push(...secretValues(server, ours));
      const env = pairs({ ...Object.fromEntries(passed), ...server.env, ...server.secretEnv });
      // The stable protocol has no type for this kind.
      return [{ name, command: server.command, args: server.args ?? [], env }];
    }
    const hidden = headersFrom(name, server.headerEnv ?? {}, ours);
    secrets.push(...Object.values(hidden));
    return [{ type: server.type, name, url: server.url, headers: pairs({ ...server.headers, ...hidden }) }];
  });
  return { wire, secrets };
}

function headersFrom(
  server: string,
  headerEnv: Readonly<Record<string, string>>,
  ours: Readonly<Record<string, string | undefined>>,
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, key] of Object.entries(headerEnv)) {
    const value = secret.safeParse(ours[key]);
    if (!value.success)
      throw new HoldfastError(
        'VALIDATION_ERROR',
        `mcpServers.${server}.headerEnv.${name}: the variable ${key} is not set in the worker's environment, or is too short`,
      );
    headers[name] = value.data;
  }
  return headers;
}

/** What the agent cannot connect to of these, by its own word; undefined when it can all. */
export function serverProblem(servers: readonly WireServer[], capabilities: unknown): string | undefined {
  const can = (typeof capabilities === 'object' && capabilities !== null ? capabilities : {}) as Record<
    string,
    unknown
  >;
  const not = servers.find(({ type }) => type !== undefined && can[type] !== true);
  return not === undefined
    ? undefined
    : `cannot connect to the MCP server "${not.name}" (no "mcpCapabilities.${not.type}")`;
}
