/** An execution's input as the text of a user's message. */
import { z } from 'zod';
import { HoldfastError } from '../../protocol/errors.js';
import type { Json } from '../../protocol/json.js';

const text = z.string().min(1);
const inputSchema = z.union([
  text,
  z.strictObject({ text }).transform((value) => value.text),
  z
    .strictObject({ prompt: z.array(z.strictObject({ type: z.literal('text'), text })).min(1) })
    .transform((value) => value.prompt.map((block) => block.text).join('\n\n')),
]);

/** Takes a string, `{ text }` or `{ prompt: [{ type: 'text', text }, …] }`. Throws `VALIDATION_ERROR` for all else. */
export function promptText(input: Json): string {
  const parsed = inputSchema.safeParse(input);
  if (parsed.success) return parsed.data;
  throw new HoldfastError(
    'VALIDATION_ERROR',
    'input must be a non-empty string, {"text": …} or {"prompt": [{"type": "text", "text": …}]}, and nothing beside it',
  );
}

/** The input of an earlier turn, whatever it was. */
export function earlierPrompt(input: Json): string {
  const parsed = inputSchema.safeParse(input);
  return parsed.success ? parsed.data : JSON.stringify(input);
}
