/** Which models there are, by name. Keys come from the worker's environment and are named here by their variable. */
import type { LanguageModel } from 'ai';
import { z } from 'zod';

const name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'a name is 1–64 of A–Z a–z 0–9 . _ -');
const variable = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'is no name of an environment variable');
const header = z.string().regex(/^[A-Za-z0-9-]+$/, 'is no name of a header');
const address = z.url({ protocol: /^https?$/, error: 'must be an http or https address' });

const common = {
  /** The id by which the API knows the model. */
  model: z.string().min(1),
  headers: z.record(header, z.string()).optional(),
  /** Headers whose values are secret: name of the header to name of the variable that holds it. */
  headerEnv: z.record(header, variable).optional(),
  maxOutputTokens: z.int().min(1).optional(),
  temperature: z.number().min(0).max(2).optional(),
};

const modelSchema = z.discriminatedUnion('provider', [
  z.strictObject({
    provider: z.literal('openai-compatible'),
    ...common,
    /** Up to and with `/v1`, or whatever stands before `/chat/completions`. */
    baseURL: address,
    /** The variable that holds the key; without it no Authorization header is sent. */
    apiKeyEnv: variable.optional(),
    /** Ask for the usage of a streamed answer. For servers that refuse `stream_options`, false. */
    includeUsage: z.boolean().optional(),
  }),
  z.strictObject({
    provider: z.literal('anthropic'),
    ...common,
    baseURL: address.optional(),
    apiKeyEnv: variable,
  }),
  z.strictObject({
    /** Any other provider of the AI SDK. Its own retries, redirects and keys are its own matter. */
    provider: z.literal('sdk'),
    create: z.custom<() => LanguageModel | Promise<LanguageModel>>(
      (value) => typeof value === 'function',
      'must be a function that makes a language model of the AI SDK',
    ),
    /** Values to redact, such as its key. */
    secrets: z.array(z.string().min(4, 'is too short to be redacted (under 4 characters)')).optional(),
    maxOutputTokens: z.int().min(1).optional(),
    temperature: z.number().min(0).max(2).optional(),
  }),
]);

export type AiModel = z.input<typeof modelSchema>;

export const modelsSchema = z
  .record(name, modelSchema)
  .refine((models) => Object.keys(models).length > 0, 'names no model');
