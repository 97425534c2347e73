/** What is read of the other end's answers. It may be newer or another implementation: what is not needed is not looked at. */
import { z } from 'zod';
import type { Json, JsonObject } from '../../protocol/json.js';
import { capabilityLevelSchema } from '../../protocol/manifest.js';
import { RemoteProblem } from './http.js';

/** It becomes a part of a path: `..` would lead elsewhere. */
const id = z.string().regex(/^(?!\.{1,2}$)[A-Za-z0-9_.~-]{1,200}$/);

export const runtimeReply = z.looseObject({
  providers: z.array(z.looseObject({ id: z.string(), capabilities: z.record(z.string(), capabilityLevelSchema) })),
});

export const conversationReply = z.looseObject({ id });

const action = z.looseObject({
  id,
  kind: z.enum(['approval', 'input']),
  title: z.string(),
  description: z.string().optional(),
  valueSchema: z.looseObject({}).optional(),
  expiresAt: z.iso.datetime().optional(),
});
export type RemoteAction = z.infer<typeof action> & { readonly payload?: Json };

export const executionReply = z.looseObject({
  id,
  state: z.string(),
  usage: z
    .looseObject({
      inputTokens: z.number().min(0).optional(),
      outputTokens: z.number().min(0).optional(),
      costUsd: z.number().min(0).optional(),
    })
    .optional(),
  pendingActions: z.array(action).optional(),
});

const event = z.looseObject({ sequence: z.int().min(1), type: z.string(), data: z.looseObject({}).optional() });
export interface RemoteEvent {
  readonly sequence: number;
  readonly type: string;
  readonly data: JsonObject;
}

const dataSchemas = {
  'output.text.delta': z.looseObject({ text: z.string() }),
  'action.required': action,
  'action.responded': z.looseObject({ actionId: z.string() }),
  'artifact.created': z.looseObject({
    id: z.string(),
    name: z.string(),
    mediaType: z.string(),
    uri: z.string().optional(),
  }),
  'run.started': z.looseObject({ providerVersion: z.string().optional() }),
  'run.completed': z.looseObject({ finalOutput: z.string().optional(), truncated: z.boolean().optional() }),
  'run.failed': z.looseObject({ code: z.string(), message: z.string() }),
  'run.cancelled': z.looseObject({ reason: z.string().optional(), confirmation: z.string().optional() }),
} as const;

/** An answer of the shape that is needed. Throws RemoteProblem that names what is wrong. */
export function read<T>(schema: z.ZodType<T>, value: unknown, what: string): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const where = issue === undefined || issue.path.length === 0 ? '' : ` (${issue.path.join('.')}: ${issue.message})`;
  throw new RemoteProblem(`${what} is not what the contract says${where}`, false);
}

/** One frame's data. */
export function readEvent(text: string): RemoteEvent {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new RemoteProblem('an event is no JSON', false);
  }
  const { sequence, type } = read(event, value, 'an event');
  // As it came: a schema would drop what it does not know how to keep.
  return { sequence, type, data: (value as { data?: JsonObject }).data ?? {} };
}

export function readData<T extends keyof typeof dataSchemas>(
  { sequence, data }: RemoteEvent,
  type: T,
): z.output<(typeof dataSchemas)[T]> {
  const schema: z.ZodType<z.output<(typeof dataSchemas)[T]>> = dataSchemas[type] as never;
  return read(schema, data, `event ${sequence} (${type})`);
}
