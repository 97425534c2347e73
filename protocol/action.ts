/** Requests to a person (approve, or give input) and the answers to them. */
import { z } from 'zod';
import { digestOf } from './digest.js';
import { idSchema } from './ids.js';
import { type Json, jsonObject, jsonValue } from './json.js';
import { valueProblem, valueSchemaProblem } from './value-schema.js';

export const actionKindSchema = z.enum(['approval', 'input']);
export type ActionKind = z.infer<typeof actionKindSchema>;

/** What an action that nobody answers in time comes to: the provider is told no, or the execution fails. */
export const onExpirySchema = z.enum(['reject', 'fail']);
export type OnExpiry = z.infer<typeof onExpirySchema>;

const digestSchema = z.string().regex(/^[0-9a-f]{64}$/, 'must be a SHA-256: 64 hexadecimal digits in lower case');

export const actionRequestSchema = z.strictObject({
  id: idSchema,
  executionId: idSchema,
  kind: actionKindSchema,
  title: z.string().min(1).max(1000),
  description: z.string().max(10_000).optional(),
  payload: jsonValue,
  /** SHA-256 of the payload's canonical JSON. The reducer computes it, so it is never a provider's word. */
  digest: digestSchema,
  /** Of an input: the JSON Schema that its value has to fit. */
  valueSchema: jsonObject.optional(),
  /** When it expires if nobody answers; `onExpiry` (default `reject`) says what comes of it then. */
  expiresAt: z.iso.datetime().optional(),
  onExpiry: onExpirySchema.optional(),
  createdAt: z.iso.datetime(),
});
export type ActionRequest = z.infer<typeof actionRequestSchema>;

/** An action as a host sends it. */
export const askedActionSchema = actionRequestSchema.omit({ digest: true });
export type AskedAction = z.infer<typeof askedActionSchema>;

/** The action as the log has it. */
export function withDigest(asked: AskedAction): ActionRequest {
  const { createdAt, valueSchema, expiresAt, onExpiry, ...rest } = asked;
  return {
    ...rest,
    digest: digestOf(asked.payload),
    ...(valueSchema === undefined ? {} : { valueSchema }),
    ...(expiresAt === undefined ? {} : { expiresAt }),
    ...(onExpiry === undefined ? {} : { onExpiry }),
    createdAt,
  };
}

/** Why this cannot be asked, or undefined when it can. */
export function askedProblem({ kind, valueSchema, expiresAt, onExpiry }: AskedAction): string | undefined {
  if (onExpiry !== undefined && expiresAt === undefined) return '"onExpiry" needs "expiresAt" or "timeoutSeconds"';
  if (valueSchema === undefined) return undefined;
  return kind === 'input' ? valueSchemaProblem(valueSchema) : '"valueSchema" is for an input';
}

/** One choice of an approval (the Agent Client Protocol's PermissionOption, with `id` for `optionId`). */
export const approvalOptionSchema = z.looseObject({
  id: z.string().min(1),
  name: z.string(),
  kind: z.enum(['allow_once', 'allow_always', 'reject_once', 'reject_always']),
});
export type ApprovalOption = z.infer<typeof approvalOptionSchema>;

/** An answer. An approval needs a boolean `approved`; an input needs `value`, where `false`, `0` and `""` are values. */
export const actionResponseSchema = z.strictObject({
  approved: z.boolean().optional(),
  value: jsonValue.optional(),
  metadata: jsonObject.optional(),
  /** The digest of what was decided on: an action with another payload is not answered (`INVALID_STATE`). */
  expectedDigest: digestSchema.optional(),
  /** `metadata` (who answered, and why) is kept in the log, in `action.responded`. */
  audit: z.boolean().optional(),
});
export type ActionResponse = z.infer<typeof actionResponseSchema>;

/** The options that an approval's payload offers, or undefined when it has none. Malformed entries are no options. */
export function approvalOptions(payload: Json): ApprovalOption[] | undefined {
  if (typeof payload !== 'object' || payload === null || Array.isArray(payload)) return undefined;
  const listed = payload.options;
  if (!Array.isArray(listed)) return undefined;
  return listed.flatMap((entry) => {
    const parsed = approvalOptionSchema.safeParse(entry);
    return parsed.success ? [parsed.data] : [];
  });
}

/** The option id that an answer names, if it names one. */
export function chosenOptionId(response: ActionResponse): string | undefined {
  const value = response.value;
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
  return typeof value.optionId === 'string' ? value.optionId : undefined;
}

/**
 * Why `response` does not answer `action`, or undefined when it does (DESIGN §1). A missing or mistyped `approved` is
 * never a yes, and of several equal options one must be named: nobody approves by accident.
 */
export function responseProblem(
  action: Pick<ActionRequest, 'kind' | 'payload' | 'valueSchema'>,
  response: ActionResponse,
): string | undefined {
  if (action.kind === 'input') {
    if (response.value === undefined) return 'an input needs "value" (false, 0 and "" are values)';
    return action.valueSchema === undefined ? undefined : valueProblem(action.valueSchema, response.value);
  }
  if (response.approved === undefined) return 'an approval needs "approved": true or false';
  const options = approvalOptions(action.payload);
  if (options === undefined) return undefined;
  const fitting = options.filter((option) => option.kind.startsWith(response.approved ? 'allow_' : 'reject_'));
  const value = response.value;
  const named = typeof value === 'object' && value !== null && !Array.isArray(value) ? value.optionId : undefined;
  if (named !== undefined) {
    if (typeof named !== 'string' || !options.some((option) => option.id === named))
      return `"value.optionId" must be one of ${options.map((option) => JSON.stringify(option.id)).join(', ')}`;
    if (!fitting.some((option) => option.id === named))
      return `option ${JSON.stringify(named)} does not agree with "approved": ${response.approved}`;
    return undefined;
  }
  const once = fitting.filter((option) => option.kind.endsWith('_once'));
  return once.length > 1
    ? `several options fit; name one in "value.optionId": ${once.map((option) => JSON.stringify(option.id)).join(', ')}`
    : undefined;
}

/** What a provider gets of an action that nobody answered in time. */
export const EXPIRED_RESPONSE: ActionResponse = Object.freeze({
  approved: false,
  metadata: Object.freeze({ expired: true }) as { expired: true },
});
