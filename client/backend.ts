/** What all parts of a client share: the connection, how to read through it, and the edge where failures are translated. */
import type { Client } from '@temporalio/client';
import { defineSearchAttributeKey } from '@temporalio/common';
import type { Decode } from '../log/decode.js';
import type { Follower } from '../log/follower.js';
import type { Followers } from '../log/followers.js';
import type { LogReader } from '../log/reader.js';
import { HoldfastError } from '../protocol/errors.js';
import type { Execution } from '../protocol/execution.js';
import { workflowIdOf } from '../protocol/ids.js';
import { SEARCH_ATTRIBUTES } from '../workflows/messages.js';
import type { Catalog } from './catalog.js';
import { clientClosed, translate } from './translate.js';

/** How long one call to the server may take, in milliseconds. */
export const CALL_MS = 10_000;

export const KEYS = {
  state: defineSearchAttributeKey(SEARCH_ATTRIBUTES.state, 'KEYWORD'),
  provider: defineSearchAttributeKey(SEARCH_ATTRIBUTES.provider, 'KEYWORD'),
  conversation: defineSearchAttributeKey(SEARCH_ATTRIBUTES.conversation, 'KEYWORD'),
  tenant: defineSearchAttributeKey(SEARCH_ATTRIBUTES.tenant, 'KEYWORD'),
};

export interface BackendParts {
  readonly tenant: string;
  readonly temporal: Client;
  readonly decode: Decode;
  readonly reader: LogReader;
  readonly followers: Followers;
  readonly catalog: Catalog;
}

export class Backend implements BackendParts {
  readonly tenant: string;
  readonly temporal: Client;
  readonly decode: Decode;
  readonly reader: LogReader;
  readonly followers: Followers;
  readonly catalog: Catalog;
  closed = false;

  constructor(parts: BackendParts) {
    this.tenant = parts.tenant;
    this.temporal = parts.temporal;
    this.decode = parts.decode;
    this.reader = parts.reader;
    this.followers = parts.followers;
    this.catalog = parts.catalog;
  }

  /** The workflow id of an execution or conversation of this tenant. */
  workflowId(id: string): string {
    return workflowIdOf(this.tenant, id);
  }

  /** Bounds calls to the server and translates their failures. */
  async call<T>(subject: string, work: () => Promise<T>): Promise<T> {
    try {
      if (this.closed) throw clientClosed();
      return await this.temporal.withDeadline(Date.now() + CALL_MS, work);
    } catch (error) {
      throw this.closed ? clientClosed() : translate(error, subject);
    }
  }

  async execution(id: string): Promise<Execution> {
    return (await this.reader.foldRun(this.workflowId(id))).fold.execution();
  }

  /** Follows an execution until `look` finds what it looks for. */
  async follow<T>(
    id: string,
    options: { readonly timeoutMs?: number | undefined; readonly signal?: AbortSignal | undefined },
    look: (follower: Follower) => T | undefined,
  ): Promise<T> {
    if (this.closed) throw clientClosed();
    const leaving = new AbortController();
    const timeout = options.timeoutMs === undefined ? undefined : setTimeout(() => leaving.abort(), options.timeoutMs);
    const signal = options.signal === undefined ? leaving.signal : AbortSignal.any([options.signal, leaving.signal]);
    const follower = this.followers.join(this.workflowId(id));
    try {
      for (;;) {
        const found = look(follower);
        if (found !== undefined) return found;
        if (follower.done?.error !== undefined) throw translate(follower.done.error, `execution ${id}`);
        if (follower.stopped) throw clientClosed();
        if (follower.done !== undefined || signal.aborted)
          throw new HoldfastError('RUNTIME_UNAVAILABLE', `execution ${id}: gave up waiting`, {
            details: { state: follower.current?.state.state },
          });
        await follower.changed(signal);
      }
    } finally {
      clearTimeout(timeout);
      this.followers.leave(follower);
    }
  }
}
