/** What the API says and takes, named for its document. Everything of the contract comes from `protocol/`. */
import { z } from 'zod';
import { actionRequestSchema, actionResponseSchema } from '../protocol/action.js';
import { artifactSchema } from '../protocol/artifact.js';
import { conversationSchema, createConversationRequestSchema } from '../protocol/conversation.js';
import { eventSchema } from '../protocol/event.js';
import { executionSchema, executionSummarySchema, startExecutionRequestSchema } from '../protocol/execution.js';
import { idSchema } from '../protocol/ids.js';
import { jsonObject } from '../protocol/json.js';
import { executionStateSchema } from '../protocol/lifecycle.js';
import { providerManifestSchema } from '../protocol/manifest.js';
import * as examples from './examples.js';

const time = z.iso.datetime();

export const problem = z.strictObject({ code: z.string(), message: z.string(), details: jsonObject.optional() });
export const problemSchema = problem.meta({
  id: 'Problem',
  description: 'Why a request was refused, or failed.',
  examples: [examples.problem],
});

export const manifest = providerManifestSchema.meta({ id: 'ProviderManifest' });
export const conversation = conversationSchema.meta({ id: 'Conversation', examples: [examples.conversation] });
export const execution = executionSchema.meta({ id: 'Execution', examples: [examples.waiting, examples.succeeded] });
export const executionSummary = executionSummarySchema.meta({ id: 'ExecutionSummary' });
export const event = eventSchema.meta({ id: 'Event', examples: [examples.event] });
export const artifact = artifactSchema.meta({ id: 'Artifact', examples: [examples.artifact] });
export const actionRequest = actionRequestSchema.meta({ id: 'ActionRequest', examples: [examples.actionRequest] });

export const createConversation = createConversationRequestSchema.meta({
  id: 'CreateConversationRequest',
  examples: [examples.createConversation],
});
export const closeConversation = z.strictObject({}).meta({ id: 'CloseConversationRequest' });
export const startExecution = startExecutionRequestSchema.meta({
  id: 'StartExecutionRequest',
  examples: [examples.startExecution],
});
export const actionResponse = actionResponseSchema.meta({ id: 'ActionResponse', examples: [examples.actionResponse] });
export const cancelRequest = z
  .strictObject({ reason: z.string().max(4096).optional() })
  .meta({ id: 'CancelExecutionRequest', examples: [examples.cancelRequest] });

export const runtimeDescription = z
  .strictObject({ name: z.string(), version: z.string(), protocolVersion: z.string(), providers: z.array(manifest) })
  .meta({ id: 'RuntimeDescription' });
export const capabilities = z.strictObject({ providers: z.array(manifest) }).meta({ id: 'Capabilities' });

const nextPageToken = z
  .string()
  .optional()
  .meta({ description: 'Give it back as `pageToken` with the same filters; absent on the last page.' });

export const executionList = z
  .strictObject({ executions: z.array(executionSummary), nextPageToken })
  .meta({ id: 'ExecutionList' });
export const eventList = z
  .strictObject({
    events: z.array(event),
    nextCursor: z.int().min(0).meta({ description: 'The cursor to go on from.' }),
  })
  .meta({ id: 'EventList' });
export const artifactList = z.strictObject({ artifacts: z.array(artifact) }).meta({ id: 'ArtifactList' });
export const actionList = z.strictObject({ actions: z.array(actionRequest) }).meta({ id: 'ActionList' });

const pendingAction = actionRequestSchema
  .pick({ id: true, kind: true, title: true, createdAt: true, expiresAt: true })
  .extend({ executionId: idSchema, conversationId: idSchema, providerId: idSchema })
  .meta({ id: 'PendingAction' });
export const inbox = z
  .strictObject({
    actions: z.array(pendingAction),
    nextPageToken,
    readAt: time.meta({ description: 'When the server was asked. What it knows is some seconds behind.' }),
    truncated: z.boolean().meta({ description: 'More than 10,000 wait; those beyond were not sorted.' }),
  })
  .meta({ id: 'Inbox' });

export const readTokenRequest = z
  .strictObject({ ttlSeconds: z.int().min(1).max(3600).optional() })
  .meta({ id: 'ReadTokenRequest', examples: [examples.readTokenRequest] });
export const readToken = z.strictObject({ token: z.string(), expiresAt: time }).meta({ id: 'ReadToken' });

export const health = z.strictObject({ status: z.literal('ok') }).meta({ id: 'Health' });
export const readiness = z
  .strictObject({ status: z.enum(['ready', 'not_ready']), missing: z.array(z.string()) })
  .meta({ id: 'Readiness' });

/** Ids in a path, and the filters of lists. */
export const conversationId = idSchema.meta({ description: 'The conversation.', example: examples.CONVERSATION_ID });
export const executionId = idSchema.meta({ description: 'The execution.', example: examples.EXECUTION_ID });
export const actionId = idSchema.meta({ description: 'The action.', example: examples.ACTION_ID });
export const providerId = idSchema.meta({ description: 'Only those of this provider.' });
export const state = executionStateSchema.meta({ description: 'Only those in this state.' });

/** A whole number in a query. */
export function wholeNumber(min: number, max: number, description: string): z.ZodType<number, string> {
  return z
    .string()
    .regex(/^\d{1,16}$/, `must be a whole number from ${min} to ${max}`)
    .transform(Number)
    .pipe(z.int().min(min).max(max))
    .meta({ type: 'integer', minimum: min, maximum: max, description });
}

/** The body of a reply in JSON. */
export function json<T extends z.ZodType>(description: string, schema: T) {
  return { description, content: { 'application/json': { schema } } };
}
