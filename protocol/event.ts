/** The entries of an execution's append-only log. */
import { z } from 'zod';
import { actionRequestSchema } from './action.js';
import { artifactSchema } from './artifact.js';
import { usageSchema } from './execution.js';
import { idSchema } from './ids.js';
import { jsonObject } from './json.js';
import { capabilitiesSchema } from './manifest.js';

/** How we know that a cancelled (or timed-out) run does no more (DESIGN §1). */
export const confirmationSchema = z.enum(['cooperative', 'forced', 'abandoned', 'lost', 'not_running']);
export type Confirmation = z.infer<typeof confirmationSchema>;

const text = z.strictObject({ text: z.string(), truncated: z.literal(true).optional() });

/** The data of each event type. */
export const eventDataSchemas = {
  'run.queued': z.strictObject({ providerId: z.string() }),
  'run.started': z.strictObject({
    providerId: z.string(),
    providerVersion: z.string(),
    capabilities: capabilitiesSchema,
  }),
  'output.text.delta': z.strictObject({ text: z.string() }),
  'output.text.done': text,
  'action.required': actionRequestSchema,
  'action.responded': z.strictObject({
    actionId: z.string(),
    approved: z.boolean().optional(),
    /** Nobody answered in time. */
    expired: z.literal(true).optional(),
    /** The answer's own, when it asked for `audit`. */
    metadata: jsonObject.optional(),
  }),
  'artifact.created': artifactSchema,
  'provider.event': jsonObject,
  'run.completed': z.strictObject({
    finalOutput: z.string(),
    truncated: z.literal(true).optional(),
    usage: usageSchema.optional(),
  }),
  'run.failed': z.strictObject({ code: z.string(), message: z.string(), usage: usageSchema.optional() }),
  'run.cancelled': z.strictObject({
    reason: z.string().optional(),
    confirmation: confirmationSchema,
    usage: usageSchema.optional(),
  }),
} as const;

export type EventType = keyof typeof eventDataSchemas;
export type EventData<T extends EventType = EventType> = z.infer<(typeof eventDataSchemas)[T]>;

export const eventTypeSchema = z.enum(Object.keys(eventDataSchemas) as [EventType, ...EventType[]]);

const base = { id: z.string(), executionId: idSchema, sequence: z.int().min(1), time: z.iso.datetime() };

/** One event. `type` decides the shape of `data`. */
export const eventSchema = z.discriminatedUnion(
  'type',
  (Object.keys(eventDataSchemas) as EventType[]).map((type) =>
    z.strictObject({ ...base, type: z.literal(type), data: eventDataSchemas[type] }),
  ) as unknown as [z.ZodObject, ...z.ZodObject[]],
) as unknown as z.ZodType<HoldfastEvent>;

/** An event as the log holds it: contiguous `sequence` from 1, `time` in ISO 8601, UTC. */
export type HoldfastEvent = {
  [T in EventType]: {
    id: string;
    executionId: string;
    sequence: number;
    type: T;
    time: string;
    data: EventData<T>;
  };
}[EventType];

/** An event before a clock has touched it: what the reducer makes. The time comes from the history (DESIGN §3, rule 5). */
export type LogEvent = {
  [T in EventType]: { sequence: number; type: T; data: EventData<T> };
}[EventType];

export const TERMINAL_EVENTS = ['run.completed', 'run.failed', 'run.cancelled'] as const;

export function isTerminalEvent(event: { type: string }): boolean {
  return TERMINAL_EVENTS.some((type) => type === event.type);
}

/** What a provider may emit by itself; everything else is the runtime's (invariant 6). */
export const PROVIDER_EVENT_TYPES = ['output.text.delta', 'artifact.created', 'provider.event'] as const;
export type ProviderEventType = (typeof PROVIDER_EVENT_TYPES)[number];

const NATIVE_NAME = /^[a-z0-9_-]+(\.[A-Za-z0-9_:/-]+)+$/i;

/** What a native name must not shadow: the contract's own types, and what the runtime observes. */
const RESERVED = /^(runtime|run|output|action|artifact|provider)\./i;

/** Why `name` cannot be the name of a provider's native event, or undefined when it can. */
export function nativeNameProblem(name: unknown): string | undefined {
  if (typeof name !== 'string' || name.length > 200 || !NATIVE_NAME.test(name))
    return 'a provider.event needs a "name" like "namespace.name" (at most 200 characters)';
  return RESERVED.test(name) ? `native names under "${name.split('.')[0]}." belong to Holdfast` : undefined;
}
