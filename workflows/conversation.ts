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
import { NO_TURNS, type TurnInput, type TurnsState, takeTurns } from '../protocol/turns.js';
import {
  ADMIT_UPDATE,
  type AdmitAnswer,
  CONVERSATION_SIGNALS,
  type ConversationMemo,
  type ConversationStart,
  type CoreActivities,
  MEMO,
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
  private readonly sending = new Set<Promise<void>>();

  constructor(private readonly start: ConversationStart) {
    this.turns = start.turns ?? NO_TURNS;
    this.memo = start.conversation;
  }

  /** Synchronous, and only takes note: the loop acts. */
  signal(name: string, argument: unknown): void {
    const fields = typeof argument === 'object' && argument !== null ? argument : {};
    const parsed = inputSchema.safeParse({ ...fields, kind: name });
    if (parsed.success && Object.hasOwn(CONVERSATION_SIGNALS, name)) this.inbox.push(parsed.data as TurnInput);
    else log.warn('a conversation dropped a signal', { signal: name });
  }

  /** Takes an execution in only if the conversation is idle; asking again for the same one changes nothing. */
  admit(id: string): AdmitAnswer {
    this.drain();
    const { holder, waiting, closed } = this.turns;
    const known = holder === id || waiting.some((each) => each.executionId === id);
    if (!known && (closed || holder !== undefined || waiting.length > 0))
      return { admitted: false, ...(holder === undefined ? {} : { holder }) };
    if (!known) this.inbox.push({ kind: 'enqueue', executionId: id });
    return { admitted: true };
  }

  async live(): Promise<void> {
    let pause = CHECK_MIN_MS;
    for (;;) {
      this.drain();
      if (this.turns.closed && this.turns.holder === undefined && this.sending.size === 0) return;
      if (workflowInfo().continueAsNewSuggested && this.sending.size === 0) return await this.continueAsNew();
      const before = this.turns.turns;
      const news = () => this.inbox.length > 0 || (workflowInfo().continueAsNewSuggested && this.sending.size === 0);
      const waits = this.turns.waiting.length > 0;
      const idleDays = this.start.closeAfterIdleDays;
      if (waits) {
        if (!(await condition(news, pause))) {
          await this.lookAfter();
          pause = Math.min(CHECK_MAX_MS, pause * 2);
        }
      } else if (idleDays !== undefined && this.turns.holder === undefined && !this.turns.closed) {
        if (!(await condition(news, idleDays * DAY_MS))) this.inbox.push({ kind: 'close' });
      } else
        await condition(
          () => news() || (this.sending.size === 0 && this.turns.closed && this.turns.holder === undefined),
        );
      if (this.turns.turns !== before) pause = CHECK_MIN_MS;
    }
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
      for (const id of step.cancel) this.send(id, 'cancel', { reason });
      if (step.grant !== undefined) {
        const { sessions, transcript } = this.turns;
        const session = Object.hasOwn(sessions, step.grant.providerId) ? sessions[step.grant.providerId] : undefined;
        const grant = { ...(session === undefined ? {} : { session }), transcript };
        this.send(step.grant.executionId, 'turn', grant);
      }
    }
  }

  /** Signals an execution. One that cannot be reached has ended: its turn is over. */
  private send(id: string, signal: 'turn' | 'cancel', argument: unknown): void {
    const handle = getExternalWorkflowHandle(workflowIdOf(this.start.tenant, id));
    const sent = handle.signal(signal, argument).catch(() => {
      this.inbox.push({ kind: 'gone', executionId: id });
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
      if (gone.includes(workflowIdOf(this.start.tenant, id))) this.inbox.push({ kind: 'gone', executionId: id });
  }

  private async continueAsNew(): Promise<void> {
    const createdAt = this.memo.createdAt ?? workflowInfo().startTime.toISOString();
    const next = { ...this.memo, createdAt };
    // A memo does not pass to the next run by itself.
    await makeContinueAsNewFunc<typeof conversation>({ memo: { [MEMO.conversation]: next } })({
      ...this.start,
      conversation: next,
      turns: this.turns,
    });
  }
}
