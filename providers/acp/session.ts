/** Opening a session: the hand-shake, a new or an earlier session, the mode. The SDK checks none of the answers. */
import * as acp from '@agentclientprotocol/sdk';
import { HoldfastError } from '../../protocol/errors.js';
import { AgentFailure } from './failure.js';
import { isObject } from './message.js';
import type { SessionUpdates } from './updates.js';

/** Of a session's id: it is kept as the conversation's session, in at most 4 KiB. */
const MAX_SESSION_ID = 1000;

export interface Requester {
  request(method: string, params: unknown): Promise<unknown>;
}

export interface SessionOptions {
  /** Absolute path. */
  readonly cwd: string;
  readonly mode?: string | undefined;
  /** Goes on with this session of an earlier turn; what the agent tells of it again is not logged. */
  readonly previous?: string | undefined;
  readonly clientVersion: string;
}

/**
 * Opens a session and returns its id; from then on its updates are logged. Rejects with an `AgentFailure`, or with
 * `VALIDATION_ERROR` for a mode that the agent does not have.
 */
export async function openSession(agent: Requester, updates: SessionUpdates, options: SessionOptions): Promise<string> {
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

  const { cwd, previous } = options;
  let answer: unknown;
  let sessionId: unknown = previous;
  if (previous === undefined) {
    answer = await agent.request(methods.session.new, { cwd, mcpServers: [] });
    sessionId = isObject(answer) ? answer.sessionId : undefined;
  } else {
    if (!canLoad(hello)) throw new AgentFailure('cannot go on with an earlier session: it lacks "loadSession"');
    updates.replay();
    answer = await agent.request(methods.session.load, { sessionId: previous, cwd, mcpServers: [] });
  }
  if (typeof sessionId !== 'string' || sessionId === '' || sessionId.length > MAX_SESSION_ID)
    throw new AgentFailure(`answered ${methods.session.new} without a session id of 1–${MAX_SESSION_ID} characters`);
  if (options.mode !== undefined) await setMode(agent, sessionId, options.mode, answer);
  await updates.open(sessionId);
  return sessionId;
}

function canLoad(hello: unknown): boolean {
  return isObject(hello) && isObject(hello.agentCapabilities) && hello.agentCapabilities.loadSession === true;
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
