/** What travels with a request through the gateway. */
import type { HttpBindings } from '@hono/node-server';
import type { Context } from 'hono';
import type { ReadGrant } from './read-tokens.js';

/** Who calls. */
export interface Identity {
  readonly tenant: string;
  /** Set for a read token: it reads the events of this execution and nothing else. */
  readonly grant?: ReadGrant;
}

/** What the access log says of a request, beside what HTTP itself knows. */
export interface Notes {
  route?: string;
  tenant?: string;
  code?: string;
  /** Of an event stream: how it ended, and the events sent. */
  stream?: string;
  events?: number;
}

export interface GatewayEnv {
  /** Node's own request and response; absent when the app is called without a server. */
  Bindings: Partial<HttpBindings>;
  Variables: { requestId: string; identity: Identity; notes: Notes };
}

export type GatewayContext = Context<GatewayEnv>;
