/** The configuration of the scripted provider: a list of steps, each an object with one main key. */
import { z } from 'zod';
import { onExpirySchema } from '../../protocol/action.js';
import { artifactDescriptorSchema } from '../../protocol/artifact.js';
import { MAX_TIMER_MS } from '../../protocol/duration.js';
import { usageSchema } from '../../protocol/execution.js';
import { jsonObject, jsonValue } from '../../protocol/json.js';

const milliseconds = z.int().min(0).max(MAX_TIMER_MS);
const title = z.string().min(1).max(1000);
const on = z.literal(true);
/** Only in the first so many attempts: with it a script can go wrong once and be recovered. */
const attempts = z.int().min(1).optional();

/** An action that expires. */
const expiry = { timeoutSeconds: z.number().optional(), onExpiry: onExpirySchema.optional() };

const stepSchemas = {
  say: z
    .strictObject({ say: z.string(), chunk: z.int().min(1).optional(), everyMs: milliseconds.optional() })
    .describe('Says the text: as one delta, or in deltas of `chunk` characters, one every `everyMs` milliseconds.'),
  wait: z.strictObject({ wait: milliseconds }).describe('Waits so many milliseconds.'),
  approve: z
    .strictObject({
      approve: z.strictObject({
        title,
        description: z.string().max(10_000).optional(),
        payload: jsonValue.optional(),
        ...expiry,
      }),
    })
    .describe('Asks for an approval, then says "approved", "rejected" or "expired".'),
  ask: z
    .strictObject({
      ask: z.strictObject({ title, payload: jsonValue.optional(), valueSchema: jsonObject.optional(), ...expiry }),
    })
    .describe('Asks for an input, then says it: text as it is, anything else as JSON; or "expired".'),
  artifact: z
    .strictObject({ artifact: artifactDescriptorSchema })
    .describe('Puts an artifact descriptor into the log.'),
  native: z
    .strictObject({ native: jsonObject.refine((data) => typeof data?.name === 'string', 'needs a text "name"') })
    .describe('Emits a provider.event with this data.'),
  record: z
    .strictObject({ record: jsonValue })
    .describe('Journals the entry; a lost attempt goes on after the last one.'),
  flood: z
    .strictObject({
      flood: z.strictObject({
        events: z.int().min(0).max(10_000_000),
        bytes: z.int().min(1).max(1_048_576).optional(),
      }),
    })
    .describe('Emits so many text deltas of `bytes` bytes (16) as fast as they are taken.'),
  session: z.strictObject({ session: jsonValue }).describe("Remembers this as the conversation's native session."),
  usage: z.strictObject({ usage: usageSchema }).describe('Reports that so much has been used so far.'),
  fail: z.strictObject({ fail: z.string() }).describe('Fails with the message.'),
  hang: z.strictObject({ hang: on, attempts }).describe('Does nothing until it is told to stop.'),
  ignoreCancel: z.strictObject({ ignoreCancel: on }).describe('From here on deaf to being told to stop.'),
  crash: z.strictObject({ crash: on, attempts }).describe('Kills its worker process with SIGKILL.'),
} as const;

type MainKey = keyof typeof stepSchemas;

export type ScriptStep = z.infer<(typeof stepSchemas)[MainKey]>;

export interface ScriptedConfig {
  /** Without any: one step that says the input. */
  readonly steps?: readonly ScriptStep[] | undefined;
  /** Actions end the attempt instead of waiting in it; their answers start the next one. */
  readonly suspend?: boolean | undefined;
}

/** The schema of a script. Without `allowCrash` a step `crash` is refused with a message that says so. */
export function scriptedConfigSchema(allowCrash: boolean): z.ZodType<ScriptedConfig> {
  const { crash, ...harmless } = stepSchemas;
  const allowed = allowCrash ? [...Object.values(harmless), crash] : Object.values(harmless);
  return z.strictObject({
    steps: z
      .array(z.union(allowed, { error: (issue) => stepProblem(issue.input, allowCrash) }))
      .optional()
      .describe('What it does, in order. Without steps it says its input.'),
    suspend: z.boolean().optional().describe('Suspend at an action instead of waiting for its answer.'),
  });
}

/** What is wrong with one step, told by its main key: a union by itself can only say "invalid input". */
function stepProblem(step: unknown, allowCrash: boolean): string {
  const known = (Object.keys(stepSchemas) as MainKey[]).filter((key) => allowCrash || key !== 'crash');
  if (typeof step !== 'object' || step === null || Array.isArray(step))
    return `a step is an object with one of the keys ${known.join(', ')}`;
  if (Object.hasOwn(step, 'crash') && !allowCrash)
    return '"crash" kills the whole worker: it is only taken by a scripted provider created with allowCrash';
  const [main, second] = known.filter((key) => Object.hasOwn(step, key));
  if (main === undefined) return `a step needs one of the keys ${known.join(', ')}`;
  if (second !== undefined) return `a step has one main key, this has "${main}" and "${second}"`;
  const issue = stepSchemas[main].safeParse(step).error?.issues[0];
  return issue === undefined ? 'not a step' : `${[main, ...issue.path.slice(1)].join('.')}: ${issue.message}`;
}
