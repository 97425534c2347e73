/**
 * The agent's permission requests as approvals. Nobody approves by accident: what is not a clear yes to one of the
 * agent's own options is answered `cancelled`.
 */
import { RequestError, type RequestPermissionResponse } from '@agentclientprotocol/sdk';
import {
  type ActionResponse,
  type ApprovalOption,
  approvalOptionSchema,
  chosenOptionId,
  responseProblem,
} from '../../protocol/action.js';
import { clip, type Json, type JsonObject, jsonBytes } from '../../protocol/json.js';
import { KIB } from '../../protocol/limits.js';
import { boundJson } from '../process/bound.js';
import type { Redactor } from '../process/redact.js';
import { unlessAborted } from '../process/wait.js';
import type { RunContext } from '../provider.js';
import type { Judge } from './judge.js';
import { isObject } from './message.js';

/** An action may take 64 KiB: title and names stand beside the payload. */
const MAX_PAYLOAD_BYTES = 60 * KIB;
/** Requests of one agent that wait at once. */
const MAX_WAITING = 100;
const MAX_OPTIONS = 30;
const MAX_OPTION_ID_LENGTH = 200;
const MAX_OPTION_NAME_LENGTH = 100;
const CANCELLED: RequestPermissionResponse = { outcome: { outcome: 'cancelled' } };

export interface PermissionDesk {
  readonly ctx: Pick<RunContext, 'requestAction' | 'log'>;
  readonly redactor: Redactor;
  readonly judge: Pick<Judge, 'answer' | 'learn'>;
  /** Ours, once it is known. */
  sessionId(): string | undefined;
  /** The title that a tool call was announced with. */
  toolTitle(toolCallId: string): string | undefined;
  /** The clock of the turn stands still while a person is asked. */
  onWaiting(waiting: boolean): void;
  /** The runtime cannot ask anybody any more: the run is over. */
  onFailure(error: unknown): void;
}

export class Permissions {
  readonly #desk: PermissionDesk;
  readonly #closing = new AbortController();
  #rejectedLast = false;
  #waiting = 0;
  /** One question after the other: what a person says to one may answer the next. */
  #tail: Promise<unknown> = Promise.resolve();

  constructor(desk: PermissionDesk) {
    this.#desk = desk;
  }

  /** Whether the last thing a person decided was a no. Some agents then end the turn as `cancelled`. */
  get rejectedLast(): boolean {
    return this.#rejectedLast;
  }

  /** Every request, open or still to come, is answered `cancelled` at once, and open actions are withdrawn. */
  close(): void {
    this.#closing.abort();
  }

  /**
   * Answers the params of one `session/request_permission`. `signal` aborts when the agent takes the request back.
   * Several wait their turn. Rejects with −32602 for a malformed request.
   */
  async answer(params: unknown, signal: AbortSignal): Promise<RequestPermissionResponse> {
    const request = parseRequest(params);
    if (request.sessionId !== this.#desk.sessionId() || this.#closing.signal.aborted) return CANCELLED;
    if (request.options.length === 0) {
      this.#desk.ctx.log('warn', 'a permission request without any option that can be chosen was cancelled');
      return CANCELLED;
    }
    if (this.#waiting >= MAX_WAITING)
      throw RequestError.internalError(undefined, `more than ${MAX_WAITING} permission requests at once`);
    const gone = AbortSignal.any([signal, this.#closing.signal]);
    this.#waiting += 1;
    const turn = this.#tail.then(() => (gone.aborted ? CANCELLED : this.#decide(request, gone)));
    this.#tail = turn;
    try {
      return (await unlessAborted(turn, gone)) ?? CANCELLED;
    } finally {
      this.#waiting -= 1;
    }
  }

  /** By the policy, or by a person. Never rejects. */
  async #decide(request: PermissionRequest, gone: AbortSignal): Promise<RequestPermissionResponse> {
    const { ctx, judge, onWaiting, onFailure } = this.#desk;
    try {
      const option = await judge.answer(request.toolCall, request.options);
      if (option !== undefined) {
        this.#rejectedLast = option.kind.startsWith('reject_');
        return { outcome: { outcome: 'selected', optionId: option.id } };
      }
      const payload = this.#payload(request);
      onWaiting(true);
      const asked = ctx.requestAction({ kind: 'approval', title: this.#title(request), payload, signal: gone });
      const response = await unlessAborted(asked, gone).finally(() => onWaiting(false));
      if (response === undefined) return CANCELLED;
      const outcome = this.#outcome(request, payload, response);
      if (outcome !== CANCELLED) await judge.learn(request.toolCall, response);
      return outcome;
    } catch (error) {
      // Withdrawn with the run: the abort says the same and is handled there.
      if (!(error instanceof Error && error.name === 'AbortError')) onFailure(error);
      return CANCELLED;
    }
  }

  #outcome(request: PermissionRequest, payload: JsonObject, response: ActionResponse): RequestPermissionResponse {
    this.#rejectedLast = response.approved === false;
    const index = chooseOption(request.options, payload, response);
    const option = index === undefined ? undefined : request.options[index];
    if (option !== undefined) return { outcome: { outcome: 'selected', optionId: option.id } };
    this.#desk.ctx.log('warn', 'no option of the agent fits the answer; the permission request was cancelled');
    return CANCELLED;
  }

  #title(request: PermissionRequest): string {
    const { title, toolCallId } = request.toolCall;
    const known = typeof toolCallId === 'string' ? this.#desk.toolTitle(toolCallId) : undefined;
    const words = typeof title === 'string' && title.trim() !== '' ? title : (known ?? 'The agent asks for permission');
    return clip(this.#desk.redactor.text(words), 1000);
  }

  #payload(request: PermissionRequest): JsonObject {
    const { redactor } = this.#desk;
    const options: Json[] = request.options.map(({ id, name, kind }) => ({
      id: redactor.text(id),
      name: clip(redactor.text(name), MAX_OPTION_NAME_LENGTH),
      kind,
    }));
    const whole = boundJson(request.toolCall, Number.POSITIVE_INFINITY);
    const room = MAX_PAYLOAD_BYTES - jsonBytes(options) - 100;
    const toolCall = boundJson(redactor.data(whole.value), room);
    const truncated = whole.truncated || toolCall.truncated;
    return {
      toolCall: toolCall.value,
      options,
      ...(truncated ? { truncated } : {}),
    };
  }
}

/**
 * The index of the option that `response` picks from `options`, as they were shown in `payload`. `approved` alone
 * stands for the one `allow_once` or `reject_once` option; an option that is named must agree with it. Undefined when
 * nothing fits.
 */
export function chooseOption(
  options: readonly ApprovalOption[],
  payload: JsonObject,
  response: ActionResponse,
): number | undefined {
  if (responseProblem({ kind: 'approval', payload }, response) !== undefined) return undefined;
  const named = chosenOptionId(response);
  const shown = Array.isArray(payload.options) ? payload.options : [];
  const index =
    named === undefined
      ? options.findIndex((option) => option.kind === (response.approved ? 'allow_once' : 'reject_once'))
      : shown.findIndex((option) => isObject(option) && option.id === named);
  return index === -1 ? undefined : index;
}

interface PermissionRequest {
  readonly sessionId: unknown;
  readonly toolCall: Record<string, unknown>;
  /** Those of a kind that is known. */
  readonly options: ApprovalOption[];
}

/** Takes the request as it is (the SDK's own schema refuses all of it for one kind of option that it does not know). */
function parseRequest(params: unknown): PermissionRequest {
  if (!isObject(params) || !isObject(params.toolCall) || !Array.isArray(params.options))
    throw RequestError.invalidParams(undefined, 'a permission request needs sessionId, toolCall and options');
  const options = params.options.flatMap((entry: unknown) => {
    const parsed = isObject(entry) ? approvalOptionSchema.safeParse({ ...entry, id: entry.optionId }) : undefined;
    return parsed?.success ? [parsed.data] : [];
  });
  if (new Set(options.map((option) => option.id)).size !== options.length)
    throw RequestError.invalidParams(undefined, 'two options have the same optionId');
  if (options.length > MAX_OPTIONS || options.some((option) => option.id.length > MAX_OPTION_ID_LENGTH)) {
    const limits = `at most ${MAX_OPTIONS} options with ids of at most ${MAX_OPTION_ID_LENGTH} characters`;
    throw RequestError.invalidParams(undefined, limits);
  }
  return { sessionId: params.sessionId, toolCall: params.toolCall, options };
}
