/** What a worker's configuration says about the other end. A request carries neither its address nor its token. */
import { z } from 'zod';
import { milliseconds } from '../../protocol/duration.js';
import { HoldfastError } from '../../protocol/errors.js';
import { idSchema } from '../../protocol/ids.js';
import { MAX_TIMEOUT_SECONDS } from '../../protocol/limits.js';
import { capabilitiesSchema } from '../../protocol/manifest.js';
import { checkedOptions } from '../process/options.js';

/** Anything shorter would be found all over an honest text. */
const MIN_SECRET_LENGTH = 4;
const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** What any server of this contract does for an execution, whatever its providers can. */
const MODEST = { 'event.replay': 'native', 'event.streaming': 'native', 'execution.cancel': 'native' } as const;

const optionsSchema = z
  .strictObject({
    id: idSchema.default('remote'),
    name: z.string().min(1).max(200).default('Remote runtime'),
    /** Whatever stands before `/v1/executions`. */
    baseURL: z
      .url({ protocol: /^https?$/, error: 'must be an http or https address' })
      .refine((url) => URL.canParse(url) && !/[?#@]/.test(url), 'must be without query, fragment and credentials'),
    /** The variable that holds the token, sent as `Authorization: Bearer`. Without it none is sent. */
    tokenEnv: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'is no name of an environment variable')
      .optional(),
    /** Send the token over plain HTTP to another machine. */
    insecure: z.boolean().default(false),
    /** The id of the provider at the other end. */
    provider: idSchema,
    /** What this provider promises. Each is checked at the other end before work starts there. */
    capabilities: capabilitiesSchema.default({ ...MODEST }),
    /** `timeoutSeconds` of the executions at the other end: a bound for one that nobody here watches any more. */
    timeoutSeconds: z.int().min(1).max(MAX_TIMEOUT_SECONDS).optional(),
    /** How long the other end may be out of reach, from the last answer on, before the execution fails. */
    unreachableMs: milliseconds.default(15 * 60_000),
    /** Of one request, but for streams. */
    requestTimeoutMs: milliseconds.default(30_000),
    /** A stream on which nothing comes for so long, not even a comment, is opened anew. */
    quietMs: milliseconds.default(60_000),
  })
  .superRefine((options, ctx) => {
    const { protocol, hostname } = new URL(options.baseURL);
    if (options.tokenEnv !== undefined && protocol === 'http:' && !LOOPBACK.test(hostname) && !options.insecure)
      ctx.addIssue({
        code: 'custom',
        path: ['baseURL'],
        message: 'would carry the token over plain HTTP; use https, or say insecure',
      });
  });

/** What `remoteProvider` takes. */
export type RemoteOptions = z.input<typeof optionsSchema>;

export interface ResolvedOptions extends z.output<typeof optionsSchema> {
  readonly token: string | undefined;
}

/** Checks the worker's configuration and reads the token. Throws `VALIDATION_ERROR` that names each wrong place. */
export function resolveOptions(given: RemoteOptions): ResolvedOptions {
  const checked = checkedOptions('remoteProvider', optionsSchema, given);
  const options = { ...checked, baseURL: checked.baseURL.replace(/\/+$/, '') };
  return { ...options, token: options.tokenEnv === undefined ? undefined : tokenIn(options.tokenEnv) };
}

function tokenIn(variable: string): string {
  const value = process.env[variable];
  if (value === undefined) throw invalid(`tokenEnv: the variable ${variable} is not set`);
  if (value.length < MIN_SECRET_LENGTH) throw invalid(`tokenEnv: the variable ${variable} is too short to be redacted`);
  if (!/^[\x21-\x7e]+$/.test(value)) throw invalid(`tokenEnv: the variable ${variable} is not what a header can hold`);
  return value;
}

function invalid(message: string): HoldfastError {
  return new HoldfastError('VALIDATION_ERROR', `remoteProvider: ${message}`);
}
