/** The lines of a command that speaks NDJSON: one JSON object with a `type` each. What is none of these is noise. */
import { z } from 'zod';
import { artifactDescriptorSchema } from '../../protocol/artifact.js';
import { nativeNameProblem } from '../../protocol/event.js';
import { usageSchema } from '../../protocol/execution.js';
import { cleanText } from '../process/stderr-tail.js';

const question = {
  /** The command's own; its answer carries it. */
  id: z.union([z.string().min(1).max(200), z.number()]),
  title: z.string().min(1).max(1000),
  description: z.string().max(10_000).optional(),
  payload: z.unknown().optional(),
  // Whoever asks in a wrong way waits for an answer all the same: the runtime says what is wrong, and the run fails.
  timeoutSeconds: z.unknown().optional(),
  expiresAt: z.unknown().optional(),
  onExpiry: z.unknown().optional(),
  valueSchema: z.unknown().optional(),
};

const lineSchema = z.discriminatedUnion('type', [
  z.looseObject({ type: z.literal('text'), text: z.string() }),
  z.looseObject({ type: z.literal('event'), name: z.string().min(1) }),
  artifactDescriptorSchema.extend({ type: z.literal('artifact') }),
  z.looseObject({ type: z.literal('result'), text: z.string().optional(), usage: usageSchema.optional() }),
  z.looseObject({ type: z.literal('usage'), usage: usageSchema }),
  z.looseObject({ type: z.literal('error'), message: z.string() }),
  z.looseObject({ type: z.literal('approve'), ...question }),
  z.looseObject({ type: z.literal('ask'), ...question }),
]);

export type CommandEvent = z.infer<typeof lineSchema>;
export type Question = Extract<CommandEvent, { type: 'approve' | 'ask' }>;

export type Line =
  | { readonly kind: 'event'; readonly event: CommandEvent }
  | { readonly kind: 'empty' }
  | { readonly kind: 'noise'; readonly sample: string; readonly why: string };

/** How much of a line may be shown in a log. */
const SAMPLE = 1000;

/** Reads one line, decoded as UTF-8. Never throws. */
export function readLine(bytes: Buffer): Line {
  const line = bytes.toString('utf8').trim();
  if (line === '') return { kind: 'empty' };
  const noise = (why: string): Line => ({ kind: 'noise', sample: line.slice(0, SAMPLE), why });
  let value: unknown;
  try {
    value = JSON.parse(withoutPrefix(line));
  } catch {
    return noise('no JSON');
  }
  const parsed = lineSchema.safeParse(value);
  if (parsed.success) return { kind: 'event', event: parsed.data };
  const issue = parsed.error.issues[0];
  return noise(`no event: ${issue?.path.join('.') || 'line'}: ${issue?.message ?? 'invalid'}`);
}

/** A terminal sequence that shows nothing may stand before an honest line. */
function withoutPrefix(line: string): string {
  const start = line.indexOf('{');
  return start > 0 && start <= SAMPLE && cleanText(line.slice(0, start)) === '' ? line.slice(start) : line;
}

/** What this provider itself puts on record: nothing a command says may look like it. */
const OURS = /^(?:policy|workspace)\./i;

/** The name that an event of the command gets in the log: its own where that is legal, else under `command.`. */
export function nativeName(given: string): string {
  const names = [...(OURS.test(given) ? [] : [given]), `command.${given}`];
  return names.find((name) => nativeNameProblem(name) === undefined) ?? 'command.event';
}
