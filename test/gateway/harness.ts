/** A gateway over a real server, and calls of it whose every answer is held against its OpenAPI document. */
import { pino } from 'pino';
import { expect } from 'vitest';
import type { EventPage, Inbox, RuntimeDescription } from '../../client/index.js';
import { type RunningGateway, type ServeOptions, serveGateway } from '../../gateway/index.js';
import type { Artifact } from '../../protocol/artifact.js';
import type { Execution, ExecutionSummary } from '../../protocol/execution.js';
import type { Cluster } from '../support/cluster.js';
import { ResponseCheck } from './openapi.js';

/** Whatever any answer may hold. That it is what the operation says is held against the document. */
export interface Body extends Execution, Inbox, EventPage, ReadToken, RuntimeDescription {
  readonly code: string;
  readonly message: string;
  readonly details: Readonly<Record<string, unknown>>;
  readonly missing: readonly string[];
  readonly executions: readonly ExecutionSummary[];
  readonly artifacts: readonly Artifact[];
}

interface ReadToken {
  readonly token: string;
  readonly expiresAt: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Body;
}

export interface CallOptions {
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Sent as it is. */
  readonly raw?: string | Uint8Array;
  readonly headers?: Record<string, string>;
}

export class Harness {
  private constructor(
    readonly gateway: RunningGateway,
    /** The lines of the access log. */
    readonly log: readonly string[],
    private readonly check: ResponseCheck,
    private readonly token: string | undefined,
  ) {}

  static async start(options: Omit<ServeOptions, 'port' | 'logger'>, token?: string): Promise<Harness> {
    const lines: string[] = [];
    const logger = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) });
    const gateway = await serveGateway({ handleSignals: false, ...options, port: 0, logger });
    return new Harness(gateway, lines, await ResponseCheck.of(gateway.url), token);
  }

  get url(): string {
    return this.gateway.url;
  }

  async call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const { body, raw, headers } = options;
    const response = await fetch(this.url + path, {
      method,
      headers: {
        ...(this.token === undefined ? {} : { authorization: `Bearer ${this.token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(raw !== undefined ? { body: raw } : body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    const answer = { status: response.status, headers: response.headers, body: parsed(text) as Body };
    if (method !== 'HEAD' && method !== 'OPTIONS' && !/event-stream/.test(response.headers.get('content-type') ?? ''))
      expect(this.check.problem(method, path, answer.status, answer.body)).toBeUndefined();
    expect(response.headers.get('x-request-id')).toMatch(/^[\w.-]{1,64}$/);
    return answer;
  }

  get = (path: string, headers?: Record<string, string>): Promise<Answer> =>
    this.call('GET', path, headers === undefined ? {} : { headers });

  post = (path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer> =>
    this.call('POST', path, { ...(body === undefined ? {} : { body }), ...(headers === undefined ? {} : { headers }) });

  /** Starts an execution of the scripted provider in a conversation of its own. */
  async run(cluster: Cluster | undefined, steps: readonly object[], more: object = {}): Promise<Execution> {
    const conversation = await this.post('/v1/conversations');
    const request = { conversationId: conversation.body.id, providerId: 'scripted', input: 'go', ...more };
    const answer = await this.post('/v1/executions', { ...request, config: { steps } });
    expect(answer.status).toBe(202);
    cluster?.started.push(answer.body.id);
    return answer.body as Execution;
  }

  /** The open action of an execution, once there is one. */
  async action(executionId: string): Promise<{ id: string; title: string }> {
    for (;;) {
      const { body } = await this.get(`/v1/executions/${executionId}/actions`);
      const [action] = body.actions;
      if (action !== undefined) return action;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
