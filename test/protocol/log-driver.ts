/** Drives a log through the reducer as a workflow does: one input after the other, each passed through JSON first. */
import type { ActionResponse, AskedAction } from '../../protocol/action.js';
import type { LogEvent } from '../../protocol/event.js';
import type { Json, JsonObject } from '../../protocol/json.js';
import { throughJson } from '../../protocol/json.js';
import type { BatchItem, LogInput, Mark } from '../../protocol/log/inputs.js';
import { begin, reduce } from '../../protocol/log/reduce.js';
import { type Closing, seal } from '../../protocol/log/seal.js';
import type { LogRequest, LogState, Step, Verdict } from '../../protocol/log/state.js';

export const IDENTITY = {
  executionId: 'exec_test',
  tenant: 'default',
  conversationId: 'conv_test',
  providerId: 'scripted',
};

export const REQUEST: LogRequest = { input: 'hello', requiredCapabilities: [], config: {}, metadata: {} };

const CREATED_AT = '2026-01-01T00:00:00.000Z';

export function actionRequest(id: string, fields: Partial<AskedAction> = {}): AskedAction {
  return {
    id,
    executionId: IDENTITY.executionId,
    kind: 'approval',
    title: 'May I?',
    payload: {},
    createdAt: CREATED_AT,
    ...fields,
  };
}

export function artifact(id: string, metadata: JsonObject = {}) {
  const { executionId } = IDENTITY;
  return { id, executionId, name: `${id}.txt`, mediaType: 'text/plain', createdAt: CREATED_AT, metadata };
}

export class Log {
  state: LogState;
  readonly events: LogEvent[] = [];
  readonly entries: Json[] = [];
  private batches = 0;

  constructor(request: Partial<LogRequest> = {}) {
    const step = begin(IDENTITY, { ...REQUEST, ...request });
    this.state = step.state;
    this.events.push(...step.events);
  }

  input(input: LogInput): Step {
    return this.accept(reduce(this.state, throughJson(input)));
  }

  private accept(step: Step): Step {
    this.state = step.state;
    this.events.push(...step.events);
    this.entries.push(...step.entries);
    return step;
  }

  signal(name: string, argument?: unknown): Step {
    return this.input({ kind: 'signal', name, args: [argument] });
  }

  mark(mark: Mark): Step {
    return this.input({ kind: 'mark', mark });
  }

  seal(closing: Closing): Step {
    return this.accept(seal(this.state, closing));
  }

  announce(recovery: 'none' | 'journal' = 'none', attempt = this.state.attempt): Step {
    this.batches = 0;
    return this.signal('announce', {
      attempt,
      token: `token-${attempt}`,
      queue: 'host',
      watchQueue: 'host-watch',
      providerVersion: '1.0.0',
      capabilities: {},
      effectiveConfig: {},
      recovery,
    });
  }

  /** One batch of the attempt's own host. */
  append(...items: BatchItem[]): Step {
    return this.signal('append', { token: this.state.host?.token ?? 'none', batch: ++this.batches, items });
  }

  /** Announced and called: the state a provider works in. */
  start(recovery: 'none' | 'journal' = 'none'): this {
    this.announce(recovery);
    this.append({ kind: 'started' });
    return this;
  }

  say(text: string): Step {
    return this.append({ kind: 'text', text });
  }

  ask(id: string, fields: Partial<AskedAction> = {}, suspend = false): Step {
    return this.append({ kind: 'action', action: actionRequest(id, fields), suspend });
  }

  respond(actionId: string, response: ActionResponse | Json, responseId = 'resp_1'): Verdict | undefined {
    return this.signal('respond', { responseId, actionId, response }).verdict?.verdict;
  }

  lose(message = 'its host is gone'): Step {
    return this.mark({ kind: 'settled', attempt: this.state.attempt, result: { how: 'lost', message } });
  }

  /** The attempt is lost and the next one started. */
  recover(recovery: 'none' | 'journal' = 'journal', took?: string): void {
    this.lose();
    this.mark({ kind: 'attempt', attempt: this.state.attempt + 1 });
    this.announce(recovery);
    this.append({ kind: 'started', ...(took === undefined ? {} : { took }) });
  }

  types(): string[] {
    return this.events.map((event) => event.type);
  }

  /** The data of all `provider.event`s of this name. */
  named(name: string): JsonObject[] {
    return this.events.flatMap((event) =>
      event.type === 'provider.event' && event.data.name === name ? [event.data] : [],
    );
  }
}
