/** One bounded attempt of a harness, and what starts it. */
import { z } from 'zod';
import { actionRequestSchema } from './action.js';
import { idSchema } from './ids.js';
import { jsonBytes, jsonObject, jsonValue } from './json.js';
import { executionStateSchema } from './lifecycle.js';
import { KIB, MAX_CONFIG_BYTES, MAX_REQUEST_BYTES, MAX_TIMEOUT_SECONDS } from './limits.js';
import { capabilityNameSchema } from './manifest.js';

export const usageSchema = z.strictObject({
  inputTokens: z.number().min(0).optional(),
  outputTokens: z.number().min(0).optional(),
  costUsd: z.number().min(0).optional(),
});
export type Usage = z.infer<typeof usageSchema>;

export const executionSchema = z.strictObject({
  id: idSchema,
  conversationId: idSchema,
  providerId: idSchema,
  state: executionStateSchema,
  input: jsonValue,
  requiredCapabilities: z.array(z.string()),
  effectiveConfig: jsonValue,
  metadata: jsonObject,
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
  startedAt: z.iso.datetime().optional(),
  endedAt: z.iso.datetime().optional(),
  finalOutput: z.string().optional(),
  error: z.strictObject({ code: z.string(), message: z.string() }).optional(),
  usage: usageSchema.optional(),
  pendingActions: z.array(actionRequestSchema),
});
export type Execution = z.infer<typeof executionSchema>;

/** What one list call can tell of an execution without reading its log. */
export const executionSummarySchema = executionSchema
  .pick({ id: true, conversationId: true, providerId: true, state: true, createdAt: true, metadata: true })
  .extend({
    endedAt: z.iso.datetime().optional(),
    pendingActions: z.array(
      actionRequestSchema.pick({ id: true, kind: true, title: true, createdAt: true, expiresAt: true }),
    ),
  });
export type ExecutionSummary = z.infer<typeof executionSummarySchema>;

export const idempotencyKeySchema = z.string().min(1).max(200);

const startFields = {
  conversationId: idSchema,
  providerId: idSchema,
  input: jsonValue,
  requiredCapabilities: z.array(capabilityNameSchema).max(100).optional(),
  /** Never a reason to refuse: `run.started` tells at which level each of them is there. */
  preferredCapabilities: z.array(capabilityNameSchema).max(100).optional(),
  config: jsonObject.optional(),
  metadata: jsonObject.optional(),
  idempotencyKey: idempotencyKeySchema.optional(),
  timeoutSeconds: z.int().min(1).max(MAX_TIMEOUT_SECONDS).optional(),
  /**
   * When the conversation is busy with a provider that continues it: wait (`queue`, the default), start nothing
   * (`reject`: `INVALID_STATE`), or cancel what runs and go next (`interrupt`).
   */
  onBusy: z.enum(['queue', 'reject', 'interrupt']).optional(),
};

/** Start one execution. `timeoutSeconds` counts from `createdAt`, through queue, waits and suspension. */
export const startExecutionRequestSchema = z.strictObject(startFields).superRefine((request, ctx) => {
  // What is no JSON is refused already, and cannot be measured: it may be circular or 20,000 levels deep.
  if (ctx.issues.length > 0) return;
  const limits = [
    [request, MAX_REQUEST_BYTES, 'the request'],
    [request.metadata, 16 * KIB, '"metadata"'],
    [request.config, MAX_CONFIG_BYTES, '"config"'],
  ] as const;
  for (const [value, limit, name] of limits) {
    if (value === undefined) continue;
    const bytes = jsonBytes(value);
    if (bytes > limit) ctx.addIssue({ code: 'custom', message: `${name} takes ${bytes} bytes; at most ${limit}` });
  }
});
export type StartExecutionRequest = z.infer<typeof startExecutionRequestSchema>;

export const listExecutionsFilterSchema = z.strictObject({
  state: executionStateSchema.optional(),
  providerId: idSchema.optional(),
  conversationId: idSchema.optional(),
  /** Created after, and before, this moment (ISO 8601, with `Z` or an offset). */
  after: z.iso.datetime({ offset: true }).optional(),
  before: z.iso.datetime({ offset: true }).optional(),
  limit: z.int().min(1).max(1000).optional(),
  pageToken: z.string().max(10_000).optional(),
});
export type ListExecutionsFilter = z.infer<typeof listExecutionsFilterSchema>;
