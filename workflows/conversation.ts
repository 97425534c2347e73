/**
 * One entity workflow per conversation. What it is stands in its memo, so that it is readable with no worker. It gives
 * the turn to one execution after the other (protocol/turns.ts decides), keeps the native sessions and the transcript
 * between them, and starts a new run now and then so that its history stays small.
 */
import {
  condition,
  defineUpdate,
  getExternalWorkflowHandle,
  log,
  makeContinueAsNewFunc,
  proxyActivities,
  setDefaultSignalHandler,
  setHandler,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow';
import { z } from 'zod';
import { ID_PATTERN, workflowIdOf } from '../protocol/ids.js';
import { jsonValue } from '../protocol/json.js';
import { UNDECODABLE } from '../protocol/log/inputs.js';
import { NO_TURNS, type TurnInput, type TurnsState, takeTurns } from '../protocol/turns.js';
import {
  ADMIT_UPDATE,
  type AdmitAnswer,
  CONVERSATION_SIGNALS,
  type ConversationMemo,
  type ConversationStart,
  type CoreActivities,
  MEMO,
  type Unsent,
  WORKFLOW_QUEUE,
} from './messages.js';
import { readable } from './readable.js';

const { goneOf } = proxyActivities<CoreActivities>({ taskQueue: WORKFLOW_QUEUE, startToCloseTimeout: '1 minute' });

/** While somebody waits, the holder is looked after: at first after so long, then less and less often. */
const CHECK_MIN_MS = 5_000;
const CHECK_MAX_MS = 10 * 60_000;
const DAY_MS = 86_400_000;

const executionId = z.string().min(1).max(128);
const inputSchema = z.discriminatedUnion('kind', [
  z.looseObject({
    kind: z.literal('enqueue'),
    executionId,
    first: z.boolean().default(false),
    interrupt: z.boolean().default(false),
  }),
  z.looseObject({ kind: z.literal('ready'), executionId, providerId: z.string().min(1) }),
  z.looseObject({
    kind: z.literal('release'),
    executionId,
    providerId: z.string().min(1),
    session: jsonValue.optional(),
    turn: z.looseObject({ executionId, input: jsonValue, output: z.string() }).optional(),
  }),
  z.looseObject({ kind: z.literal('gone'), executionId }),
  z.looseObject({ kind: z.literal('touch') }),
  z.looseObject({ kind: z.literal('close') }),
]);

export async function conversation(start: ConversationStart): Promise<void> {
  const life = new ConversationLife(readable(start));
  setDefaultSignalHandler((name, argument) => life.signal(name, argument));
  setHandler(defineUpdate<AdmitAnswer, [string]>(ADMIT_UPDATE), (id) => life.admit(id), { validator: checkId });
  await life.live();
}

/** What cannot be an execution's id, or cannot be decoded, is refused and leaves nothing in history. */
function checkId(id: unknown): void {
  if (typeof id !== 'string' || !ID_PATTERN.test(id)) throw new Error('admit takes the id of an execution');
}

class ConversationLife {
  private turns: TurnsState;
  private memo: ConversationMemo;
  private readonly inbox: TurnInput[] = [];
  /** Decided and not sent yet. */
  private readonly unsent: Unsent[];
  private readonly sending = new Set<Promise<void>>();
  /** The holder is to be looked after now. */
  private suspected = false;
  private suspectAgainAt = 0;

  constructor(private readonly start: ConversationStart) {
    this.turns = start.turns ?? NO_TURNS;
    this.memo = start.conversation;
    this.unsent = [...(start.unsent ?? [])];
  }

  /** Synchronous, and only takes note: the loop acts. */
  signal(name: string, argument: unknown): void {
    const fields = typeof argument === 'object' && argument !== null ? argument : {};
    const parsed = inputSchema.safeParse({ ...fields, kind: name });
    if (argument !== UNDECODABLE && parsed.success && Object.hasOwn(CONVERSATION_SIGNALS, name))
      this.inbox.push(parsed.data as TurnInput);
    else log.warn('a conversation dropped a signal', { signal: name });
  }

  /** Takes an execution in only if the conversation is idle; asking again for the same one changes nothing. */
  admit(id: string): AdmitAnswer {
    this.drain();
    const { holder, waiting, closed } = this.turns;
    const known = holder === id || waiting.some((each) => each.executionId === id);
    if (!known && (closed || holder !== undefined || waiting.length > 0)) {
      // Nobody waits behind this holder, so nobody looks after it: the one who is refused is the reason to.
      if (holder !== undefined && Date.now() >= this.suspectAgainAt) {
        this.suspected = true;
        this.suspectAgainAt = Date.now() + CHECK_MIN_MS;
      }
      return { admitted: false, closed, ...(holder === undefined ? {} : { holder }) };
    }
    if (!known) this.inbox.push({ kind: 'enqueue', executionId: id });
    return { admitted: true, closed };
  }

  async live(): Promise<void> {
    let pause = CHECK_MIN_MS;
    let turns = this.turns.turns;
    let lookAt = Date.now() + pause;
    for (;;) {
      this.drain();
      if (this.isOver()) return;
      if (this.isLong()) return await this.continueAsNew();
      if (this.turns.turns !== turns) {
        turns = this.turns.turns;
        pause = CHECK_MIN_MS;
        lookAt = Date.now() + pause;
      }
      if (this.suspected || (this.somebodyWaits() && Date.now() >= lookAt)) {
        this.suspected = false;
        await this.lookAfter();
        pause = Math.min(CHECK_MAX_MS, pause * 2);
        lookAt = Date.now() + pause;
      } else if (this.somebodyWaits()) await condition(() => this.hasNews(), Math.max(1, lookAt - Date.now()));
      else {
        await this.rest();
        lookAt = Date.now() + pause;
      }
    }
  }

  /** Nobody waits: rests until something comes, or for as long as a conversation may be idle. */
  private async rest(): Promise<void> {
    const days = this.start.closeAfterIdleDays;
    if (days === undefined || this.turns.closed) return await condition(() => this.hasNews());
    const holds = this.turns.holder !== undefined;
    if (await condition(() => this.hasNews(), holds ? DAY_MS : days * DAY_MS)) return;
    if (holds) this.suspected = true;
    else this.inbox.push({ kind: 'close' });
  }

  private hasNews(): boolean {
    return this.inbox.length > 0 || this.suspected || this.isOver() || this.isLong();
  }

  private isOver(): boolean {
    return this.turns.closed && this.turns.holder === undefined && this.sending.size + this.unsent.length === 0;
  }

  private isLong(): boolean {
    return workflowInfo().continueAsNewSuggested && this.sending.size === 0;
  }

  private somebodyWaits(): boolean {
    return this.turns.waiting.length > 0 || (this.turns.closed && this.turns.holder !== undefined);
  }

  private drain(): void {
    for (let input = this.inbox.shift(); input !== undefined; input = this.inbox.shift()) {
      const wasClosed = this.turns.closed;
      const step = takeTurns(this.turns, input);
      this.turns = step.state;
      if (step.state.closed && !wasClosed) {
        this.memo = { ...this.memo, closed: true };
        upsertMemo({ [MEMO.conversation]: this.memo });
      }
      const reason = input.kind === 'close' ? 'the conversation was closed' : 'interrupted by a later execution';
      for (const to of step.cancel) this.unsent.push({ to, signal: 'cancel', reason });
      const { grant } = step;
      if (grant !== undefined)
        this.unsent.push({ to: grant.executionId, signal: 'turn', providerId: grant.providerId });
    }
    // A run that is about to be left waits for what is under way, and leaves the rest to the next one: under a steady
    // stream of turns there is always something under way.
    while (this.unsent.length > 0 && !workflowInfo().continueAsNewSuggested) this.sendNext();
  }

  private sendNext(): void {
    const next = this.unsent.shift();
    if (next?.signal === 'cancel') this.send(next.to, 'cancel', { reason: next.reason });
    // One that has given its turn back meanwhile needs none: of many that come and go at once only the last is told.
    else if (next !== undefined && next.to === this.turns.holder) {
      const { sessions, transcript } = this.turns;
      const session = Object.hasOwn(sessions, next.providerId) ? sessions[next.providerId] : undefined;
      this.send(next.to, 'turn', { ...(session === undefined ? {} : { session }), transcript });
    }
  }

  /** Signals an execution. One that cannot be reached has ended (or, to be cancelled, is not there yet). */
  private send(id: string, signal: 'turn' | 'cancel', argument: unknown): void {
    const handle = getExternalWorkflowHandle(workflowIdOf(this.start.tenant, id));
    const sent = handle.signal(signal, argument).catch(() => {
      this.inbox.push({ kind: 'gone', executionId: id, unseen: signal === 'cancel' });
    });
    const settled = sent.finally(() => this.sending.delete(settled));
    this.sending.add(settled);
  }

  /** A holder that was terminated, or one that was never started, must not block the rest. */
  private async lookAfter(): Promise<void> {
    const { holder, waiting } = this.turns;
    const unseen = waiting.filter((each) => each.providerId === undefined).map((each) => each.executionId);
    const ids = holder === undefined ? unseen : [holder, ...unseen];
    if (ids.length === 0) return;
    const workflowIds = ids.slice(0, 100).map((id) => workflowIdOf(this.start.tenant, id));
    const gone = await goneOf({ workflowIds });
    for (const id of ids)
      if (gone.includes(workflowIdOf(this.start.tenant, id)))
        this.inbox.push({ kind: 'gone', executionId: id, unseen: id !== holder });
  }

  private async continueAsNew(): Promise<void> {
    const createdAt = this.memo.createdAt ?? workflowInfo().startTime.toISOString();
    const next = { ...this.memo, createdAt };
    // A memo does not pass to the next run by itself.
    await makeContinueAsNewFunc<typeof conversation>({ memo: { [MEMO.conversation]: next } })({
      ...this.start,
      conversation: next,
      turns: this.turns,
      unsent: this.unsent,
    });
  }
}
