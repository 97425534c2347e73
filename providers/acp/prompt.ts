/** An execution's input as the content blocks of a prompt. */
import type { ContentBlock } from '@agentclientprotocol/sdk';
import { z } from 'zod';
import { HoldfastError } from '../../protocol/errors.js';
import type { Json } from '../../protocol/json.js';

const text = z.string().min(1);
const inputSchema = z.union([
  text.transform((value) => [value]),
  z.strictObject({ text }).transform((value) => [value.text]),
  z
    .strictObject({ prompt: z.array(z.strictObject({ type: z.literal('text'), text })).min(1) })
    .transform((value) => value.prompt.map((block) => block.text)),
]);

/**
 * Takes a string, `{ text }` or `{ prompt: [{ type: 'text', text }, …] }`. Throws `VALIDATION_ERROR` for all else;
 * blocks of another type are named.
 */
export function promptOf(input: Json): ContentBlock[] {
  const parsed = inputSchema.safeParse(input);
  if (parsed.success) return parsed.data.map((value) => ({ type: 'text', text: value }));
  throw new HoldfastError('VALIDATION_ERROR', problemOf(input));
}

function problemOf(input: Json): string {
  if (typeof input === 'object' && input !== null && !Array.isArray(input) && Array.isArray(input.prompt)) {
    for (const [index, block] of input.prompt.entries()) {
      const type = typeof block === 'object' && block !== null && !Array.isArray(block) ? block.type : undefined;
      if (type !== 'text')
        return `input.prompt[${index}] is of type ${JSON.stringify(type ?? null)}; this provider takes text blocks only`;
    }
  }
  return 'input must be a non-empty string, {"text": …} or {"prompt": [{"type": "text", "text": …}]}, and nothing beside it';
}
