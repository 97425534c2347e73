/**
 * Questions of the remote execution, asked here, and their answers, given there. An answer is on record before it is
 * sent, and is sent under a key of its own: neither a crash nor a repeated request loses it or gives it twice.
 */
import { createHash } from 'node:crypto';
import type { ActionResponse } from '../../protocol/action.js';
import { base32 } from '../../protocol/ids.js';
import { clip, type Json, type JsonObject } from '../../protocol/json.js';
import { valueSchemaProblem } from '../../protocol/value-schema.js';
import type { ActionQuestion, RunContext } from '../provider.js';
import { type Remote, RemoteProblem } from './http.js';
import type { Journal } from './journal.js';
import type { RemoteAction } from './wire.js';

const MAX_TITLE = 1000;
const MAX_DESCRIPTION = 10_000;

export class Questions {
  /** Rejects when asking or answering failed for good; never resolves. */
  readonly failed: Promise<never>;
  private fail: (error: unknown) => void = () => undefined;
  private readonly open = new Map<string, AbortController>();
  private readonly seen = new Set<string>();

  constructor(
    private readonly ctx: RunContext<unknown>,
    private readonly remote: Remote,
    private readonly journal: Journal,
    private readonly executionId: string,
  ) {
    this.failed = new Promise((_, reject) => {
      this.fail = reject;
    });
    this.failed.catch(() => undefined);
  }

  /** Delivers what earlier attempts were told and may not have passed on; true if some of it was refused there. */
  async deliverPending(): Promise<boolean> {
    let wasRefused = false;
    for (const { actionId, response } of [...this.journal.undelivered.values()]) {
      this.seen.add(actionId);
      if ((await this.deliver(actionId, response)) === 'refused') wasRefused = true;
    }
    return wasRefused;
  }

  isUndelivered(actionId: string): boolean {
    return this.journal.undelivered.has(actionId);
  }

  /** Asks what is open at the other end, once; `event`: by its log, which also tells of what was answered long ago. */
  ask(action: RemoteAction, by: 'event' | 'state'): void {
    const { id } = action;
    if (this.open.has(id) || (by === 'event' && (this.seen.has(id) || this.journal.rounds.has(id)))) return;
    this.seen.add(id);
    const withdrawn = new AbortController();
    this.open.set(id, withdrawn);
    this.pursue(action, withdrawn.signal).then(
      () => this.open.delete(id),
      (error) => {
        this.open.delete(id);
        if (!withdrawn.signal.aborted && !this.ctx.signal.aborted) this.fail(error);
      },
    );
  }

  /** The other end does not ask it any more. */
  withdraw(actionId: string): void {
    this.open.get(actionId)?.abort();
  }

  withdrawAll(): void {
    for (const each of this.open.values()) each.abort();
  }

  private async pursue(action: RemoteAction, signal: AbortSignal): Promise<void> {
    const { id, expiresAt } = action;
    for (;;) {
      const { approved, value, metadata } = await this.ctx.requestAction({ ...this.questionOf(action), signal });
      // The other end has the same clock to it, and what comes of it then is said there.
      if (metadata?.expired === true && expiresAt !== undefined && Date.parse(expiresAt) <= Date.now()) return;
      const response = {
        ...(approved === undefined ? {} : { approved }),
        ...(value === undefined ? {} : { value }),
        ...(metadata === undefined ? {} : { metadata }),
      };
      await this.journal.record({ answer: { actionId: id, response } });
      if ((await this.deliver(id, response)) !== 'refused') return;
    }
  }

  private questionOf(action: RemoteAction): ActionQuestion {
    const { kind, title, description, payload, valueSchema, expiresAt } = action;
    const { redactor } = this.remote;
    const schema = valueSchema as JsonObject | undefined;
    const isTaken = kind === 'input' && schema !== undefined && valueSchemaProblem(schema) === undefined;
    return {
      kind,
      title: clip(redactor.text(title) || 'Untitled', MAX_TITLE),
      ...(description === undefined ? {} : { description: clip(redactor.text(description), MAX_DESCRIPTION) }),
      payload: redactor.data((payload ?? null) as Json),
      // One that is not taken here is held against the value there.
      ...(isTaken ? { valueSchema: schema } : {}),
      ...(expiresAt === undefined ? {} : { expiresAt }),
    };
  }

  /** `refused`: it does not fit there, and the question is still open. */
  private async deliver(actionId: string, response: ActionResponse): Promise<'settled' | 'refused'> {
    const problem = await this.post(actionId, response);
    if (problem !== undefined) {
      const { code = 'unknown', message } = problem;
      await this.ctx.emit('provider.event', { name: 'remote.answer_refused', actionId, code, message });
    }
    await this.journal.record({ answered: actionId });
    return problem?.status === 400 ? 'refused' : 'settled';
  }

  private async post(actionId: string, response: ActionResponse): Promise<RemoteProblem | undefined> {
    try {
      await this.remote.call('POST', `/v1/executions/${this.executionId}/actions/${actionId}:respond`, {
        body: response,
        idempotencyKey: this.keyOf(actionId),
        signal: this.ctx.signal,
      });
      return undefined;
    } catch (error) {
      // Answered by somebody else, withdrawn, or not what it takes: the log there says how it goes on.
      if (error instanceof RemoteProblem && [400, 404, 409, 410, 422].includes(error.status ?? 0)) return error;
      throw error;
    }
  }

  private keyOf(actionId: string): string {
    const round = this.journal.rounds.get(actionId) ?? 0;
    const hash = createHash('sha256')
      .update(JSON.stringify([this.ctx.execution.id, actionId, round]))
      .digest();
    return `resp_${base32(hash).slice(0, 26)}`;
  }
}
