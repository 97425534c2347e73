/** Opening a session: the hand-shake, a new or an earlier session, the mode. The SDK checks none of the answers. */
import * as acp from '@agentclientprotocol/sdk';
import { HoldfastError } from '../../protocol/errors.js';
import { AgentFailure } from './failure.js';
import { serverProblem, type WireServer } from './mcp.js';
import { isObject } from './message.js';
import type { Continuity } from './options.js';
import type { PromptCapability } from './prompt.js';
import type { SessionUpdates } from './updates.js';

/** Of a session's id: it is kept as the conversation's session, in at most 4 KiB. */
const MAX_SESSION_ID = 1000;
/** ACP's code for "log in first": that says nothing about the session. */
const AUTH_REQUIRED = -32000;

const NOT_TAKEN: Readonly<Record<PromptCapability, string>> = {
  image: 'images (no "promptCapabilities.image")',
  embeddedContext: 'files along with a prompt (no "promptCapabilities.embeddedContext"); name them as resource_link',
};

export interface Requester {
  request(method: string, params: unknown): Promise<unknown>;
}

export interface SessionOptions {
  /** Absolute path. */
  readonly cwd: string;
  readonly mode?: string | undefined;
  readonly mcpServers: readonly WireServer[];
  /** What the prompt holds that not every agent takes. */
  readonly needs: readonly PromptCapability[];
  /** `native`: the agent has to be able to go on with a session, and a lost one is a failure. */
  readonly continuity: Continuity;
  /** The session of an earlier turn; what the agent tells of it again is not logged. */
  readonly previous?: string | undefined;
  readonly clientVersion: string;
}

export interface OpenSession {
  readonly id: string;
  /** It goes on with the session of an earlier turn. */
  readonly continued: boolean;
}

/**
 * Opens a session; from then on its updates are logged. Rejects with an `AgentFailure`, or with `VALIDATION_ERROR` for a
 * mode that the agent does not have.
 */
export async function openSession(
  agent: Requester,
  updates: SessionUpdates,
  options: SessionOptions,
): Promise<OpenSession> {
  const { agent: methods } = acp.methods;
  const hello = await agent.request(methods.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientInfo: { name: 'holdfast', version: options.clientVersion },
    // No file system and no terminals of ours: the agent works in its own process, where it can be ended.
    clientCapabilities: {},
  });
  const version = isObject(hello) ? hello.protocolVersion : undefined;
  if (version !== acp.PROTOCOL_VERSION)
    throw new AgentFailure(`speaks protocol version ${JSON.stringify(version)}; this provider speaks 1`);
  const capabilities = capabilitiesOf(hello);
  // Told at the first turn, not when there is something to lose.
  if (options.continuity === 'native' && capabilities.loadSession !== true)
    throw new AgentFailure(
      'cannot go on with earlier sessions (no "loadSession"); set "continuity" to "degraded" or "none"',
    );
  const servers = serverProblem(options.mcpServers, capabilities.mcpCapabilities);
  if (servers !== undefined) throw new AgentFailure(servers);
  const takes = isObject(capabilities.promptCapabilities) ? capabilities.promptCapabilities : {};
  const not = options.needs.find((each) => takes[each] !== true);
  if (not !== undefined) throw new HoldfastError('VALIDATION_ERROR', `the agent takes no ${NOT_TAKEN[not]}`);

  const { cwd, previous, mcpServers } = options;
  const loaded = previous === undefined ? undefined : await load(agent, updates, capabilities, previous, options);
  const answer = loaded ?? (await agent.request(methods.session.new, { cwd, mcpServers }));
  const id = loaded === undefined && isObject(answer) ? answer.sessionId : previous;
  if (typeof id !== 'string' || id === '' || id.length > MAX_SESSION_ID)
    throw new AgentFailure(`answered ${methods.session.new} without a session id of 1–${MAX_SESSION_ID} characters`);
  if (options.mode !== undefined) await setMode(agent, id, options.mode, answer);
  await updates.open(id);
  return { id, continued: loaded !== undefined };
}

/** Goes on with an earlier session; undefined when it is lost and may be replaced. That it is lost is on record. */
async function load(
  agent: Requester,
  updates: SessionUpdates,
  capabilities: Record<string, unknown>,
  sessionId: string,
  { cwd, continuity, mcpServers }: SessionOptions,
): Promise<unknown> {
  let reason = 'cannot go on with earlier sessions (no "loadSession")';
  if (capabilities.loadSession === true) {
    updates.replay();
    try {
      const answer = await agent.request(acp.methods.agent.session.load, { sessionId, cwd, mcpServers });
      return answer ?? {};
    } catch (error) {
      const code =
        error instanceof AgentFailure && error.cause instanceof acp.RequestError ? error.cause.code : undefined;
      if (code === undefined || code === AUTH_REQUIRED) throw error;
      reason = (error as AgentFailure).message;
    }
  }
  const fresh = continuity === 'degraded';
  await updates.note('acp.session_lost', { sessionId, reason, goesOn: fresh });
  if (fresh) return undefined;
  throw new AgentFailure(
    `lost the session of this conversation: it ${reason}. Start another conversation; with "continuity": "degraded" a fresh session would go on`,
  );
}

function capabilitiesOf(hello: unknown): Record<string, unknown> {
  return isObject(hello) && isObject(hello.agentCapabilities) ? hello.agentCapabilities : {};
}

/** Modes are either the session's `modes`, or (newer) a configuration option called `mode`. */
async function setMode(agent: Requester, sessionId: string, mode: string, answer: unknown): Promise<void> {
  const { setMode: set, setConfigOption } = acp.methods.agent.session;
  const session = isObject(answer) ? answer : {};
  const modes = idsOf(isObject(session.modes) ? session.modes.availableModes : undefined, 'id');
  if (modes.includes(mode)) {
    await agent.request(set, { sessionId, modeId: mode });
    return;
  }
  const listed: unknown[] = Array.isArray(session.configOptions) ? session.configOptions : [];
  const option = listed.find((entry) => isObject(entry) && entry.id === 'mode');
  const values = idsOf(isObject(option) ? option.options : undefined, 'value');
  if (values.includes(mode)) {
    await agent.request(setConfigOption, { sessionId, configId: 'mode', value: mode });
    return;
  }
  const there = [...new Set([...modes, ...values])];
  throw new HoldfastError(
    'VALIDATION_ERROR',
    `the agent has no mode ${JSON.stringify(mode)}; it has ${there.length === 0 ? 'none' : there.join(', ')}`,
  );
}

function idsOf(list: unknown, key: string): string[] {
  if (!Array.isArray(list)) return [];
  return list.flatMap((entry: unknown) => {
    const id = isObject(entry) ? entry[key] : undefined;
    return typeof id === 'string' ? [id] : [];
  });
}
