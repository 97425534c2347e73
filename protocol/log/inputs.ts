/**
 * What may change an execution: its start argument, signals and marks (DESIGN §3, The log). Every field that a later
 * version adds needs a default here, since histories live for as long as retention keeps them.
 */
import { z } from 'zod';
import { askedActionSchema } from '../action.js';
import { artifactSchema } from '../artifact.js';
import { confirmationSchema } from '../event.js';
import { usageSchema } from '../execution.js';
import { jsonObject, jsonValue } from '../json.js';
import { capabilitiesSchema } from '../manifest.js';
import { MAX_TRANSCRIPT_TURNS } from '../turns.js';

/** Stands for a signal's argument that could not be decoded. Such a signal changes nothing. */
export const UNDECODABLE = '\u0000holdfast:undecodable';

/** `announce`: a host took an attempt and is about to call the provider. */
export const announcementSchema = z.looseObject({
  attempt: z.int().min(1),
  token: z.string().min(1),
  queue: z.string().min(1),
  watchQueue: z.string().min(1),
  providerVersion: z.string(),
  capabilities: capabilitiesSchema,
  effectiveConfig: jsonValue,
  recovery: z.enum(['none', 'journal']),
});
export type Announcement = z.infer<typeof announcementSchema>;

/** What a host sends of its provider, in order. */
export const batchItemSchema = z.discriminatedUnion('kind', [
  /** The provider is being called. `took`: it was given the answer to this suspended action. */
  z.looseObject({ kind: z.literal('started'), took: z.string().optional() }),
  z.looseObject({ kind: z.literal('text'), text: z.string() }),
  z.looseObject({ kind: z.literal('native'), data: jsonObject }),
  z.looseObject({ kind: z.literal('artifact'), artifact: artifactSchema }),
  z.looseObject({ kind: z.literal('action'), action: askedActionSchema, suspend: z.boolean().default(false) }),
  /** A recovered attempt asked what an earlier one had asked, and waits for that action. */
  z.looseObject({
    kind: z.literal('adopt'),
    actionId: z.string(),
    /** Asked anew when there is nothing to adopt any more. */
    action: askedActionSchema.optional(),
    suspend: z.boolean().default(false),
  }),
  z.looseObject({ kind: z.literal('withdraw'), actionId: z.string() }),
  /** An answer was handed to the provider. */
  z.looseObject({ kind: z.literal('taken'), actionId: z.string() }),
  z.looseObject({ kind: z.literal('record'), entry: jsonValue }),
  z.looseObject({ kind: z.literal('session'), session: jsonValue }),
  /** The native session of earlier turns is not there any more. `forget`: the provider may begin a new one. */
  z.looseObject({ kind: z.literal('session_lost'), message: z.string(), forget: z.boolean().default(false) }),
  /** What it has used so far, in all; a figure that is left out stays as it was. */
  z.looseObject({ kind: z.literal('usage'), usage: usageSchema }),
  /** The provider's run settled. In the same channel as its text, so that it is fenced and ordered like it. */
  z.looseObject({
    kind: z.literal('completed'),
    finalOutput: z.string().optional(),
    truncated: z.boolean().default(false),
    usage: usageSchema.optional(),
  }),
  z.looseObject({ kind: z.literal('failed'), code: z.string(), message: z.string() }),
]);
export type BatchItem = z.input<typeof batchItemSchema>;
export type ParsedBatchItem = z.output<typeof batchItemSchema>;

/** `append`: one batch. `batch` counts from 1 within a token; a repeated one is dropped. */
export const appendSchema = z.looseObject({
  token: z.string(),
  batch: z.int().min(1),
  items: z.array(batchItemSchema),
});
export type Append = z.input<typeof appendSchema>;

/**
 * `respond`. The answer itself is checked against its action, so that the verdict can say what is wrong. `call` names
 * this one call among several with the same response id, so that its caller can tell which verdict is its own.
 */
export const respondSchema = z.looseObject({
  call: z.string().max(128).optional(),
  responseId: z.string().min(1).max(128),
  actionId: z.string().min(1).max(128),
  response: z.unknown(),
});
/** As it is sent, and as the log takes it: whether the answer is one is for the verdict to say. */
export type Respond = z.output<typeof respondSchema>;

/** `cancel`. */
export const cancelSchema = z.looseObject({ reason: z.string().optional() });
export type Cancel = z.infer<typeof cancelSchema>;

/** `turn`: the conversation gives this execution its turn, with what earlier turns left. */
export const turnSchema = z.looseObject({
  session: jsonValue.optional(),
  transcript: z
    .array(z.looseObject({ executionId: z.string(), input: jsonValue, output: z.string() }))
    .max(MAX_TRANSCRIPT_TURNS)
    .default([]),
});
export type Turn = z.output<typeof turnSchema>;

export const SIGNALS = {
  announce: announcementSchema,
  append: appendSchema,
  respond: respondSchema,
  cancel: cancelSchema,
  turn: turnSchema,
} as const;
export type SignalName = keyof typeof SIGNALS;

/** What became of an attempt that did not end its execution by itself. */
export const settledSchema = z.discriminatedUnion('how', [
  /** It was refused before any provider code ran: the manifest, the configuration or the journal do not allow it. */
  z.looseObject({ how: z.literal('refused'), code: z.string(), message: z.string() }),
  /**
   * The attempt is gone: its host died or gave it up. Two kinds say nothing against the execution and do not count
   * against its recoveries: `orderly`, it was drained; `untaken`, no host ever showed that it had it.
   */
  z.looseObject({
    how: z.literal('lost'),
    message: z.string(),
    orderly: z.boolean().default(false),
    untaken: z.boolean().default(false),
  }),
]);
export type Settled = z.input<typeof settledSchema>;

/** What the workflow itself learned or decided. Each is one upsert of the memo key `mark`. */
export const markSchema = z.discriminatedUnion('kind', [
  /** A further attempt is scheduled. The first needs no mark: it is implied by the start. */
  z.looseObject({ kind: z.literal('attempt'), attempt: z.int().min(2) }),
  z.looseObject({ kind: z.literal('settled'), attempt: z.int().min(1), result: settledSchema }),
  z.looseObject({ kind: z.literal('cancel_requested') }),
  z.looseObject({ kind: z.literal('timeout') }),
  /** The open action's time is over. */
  z.looseObject({ kind: z.literal('expired'), actionId: z.string() }),
  z.looseObject({ kind: z.literal('stopped'), confirmation: confirmationSchema }),
  z.looseObject({ kind: z.literal('rollover') }),
]);
export type Mark = z.input<typeof markSchema>;

/** A mark as it stands in history: with the head that the workflow saw before it. */
export interface StoredMark {
  readonly mark: Mark;
  readonly sequence: number;
  readonly head: string;
}

export type LogInput =
  | { readonly kind: 'signal'; readonly name: string; readonly args: readonly unknown[] }
  | { readonly kind: 'mark'; readonly mark: unknown };
