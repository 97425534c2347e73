/** Requests to a person (approve, or give input) and the answers to them. */
import { z } from 'zod';
import { idSchema } from './ids.js';
import { type Json, jsonObject, jsonValue } from './json.js';

export const actionKindSchema = z.enum(['approval', 'input']);
export type ActionKind = z.infer<typeof actionKindSchema>;

export const actionRequestSchema = z.strictObject({
  id: idSchema,
  executionId: idSchema,
  kind: actionKindSchema,
  title: z.string().min(1).max(1000),
  description: z.string().max(10_000).optional(),
  payload: jsonValue,
  createdAt: z.iso.datetime(),
});
export type ActionRequest = z.infer<typeof actionRequestSchema>;

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
export function responseProblem(action: Pick<ActionRequest, 'kind' | 'payload'>, response: ActionResponse) {
  if (action.kind === 'input')
    return response.value === undefined ? 'an input needs "value" (false, 0 and "" are values)' : undefined;
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
