/** An execution's input as the content blocks of a prompt. */
import { basename } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { ContentBlock } from '@agentclientprotocol/sdk';
import { z } from 'zod';
import { HoldfastError } from '../../protocol/errors.js';
import type { Json } from '../../protocol/json.js';
import { openInside } from '../workspace/inside.js';
import { mediaTypeOf } from '../workspace/media-type.js';

const IMAGE_TYPES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] as const;

const text = z.string().min(1);
const path = z.string().min(1).max(4096);
const blockSchema = z.union([
  z.strictObject({ type: z.literal('text'), text }),
  z.strictObject({ type: z.literal('image'), path }),
  z.strictObject({ type: z.literal('image'), data: z.base64().min(1), mimeType: z.enum(IMAGE_TYPES) }),
  z.strictObject({ type: z.literal('resource'), path }),
  z.strictObject({ type: z.literal('resource_link'), path }),
]);
type Block = z.infer<typeof blockSchema>;

const inputSchema = z.union([
  text.transform((value): Block[] => [{ type: 'text', text: value }]),
  z.strictObject({ text }).transform((value): Block[] => [{ type: 'text', text: value.text }]),
  z.strictObject({ prompt: z.array(blockSchema).min(1).max(100) }).transform((value) => value.prompt),
]);

/** What a prompt may carry in all, in files of the largest size: it is one message, and stands in memory whole. */
const MAX_LARGEST = 4;

/** What an agent must be able to take, as it calls it. */
export type PromptCapability = 'image' | 'embeddedContext';

/**
 * Takes a string, `{ text }` or `{ prompt: [block, …] }`. A block is of type `text`, `image` (`path`, or `data` with
 * `mimeType`), `resource` (`path`: the file goes along) or `resource_link` (`path`: the agent reads it by itself).
 * Throws `VALIDATION_ERROR` for all else, naming the block.
 */
export function promptOf(input: Json): Block[] {
  const parsed = inputSchema.safeParse(input);
  if (parsed.success) return parsed.data;
  throw new HoldfastError('VALIDATION_ERROR', problemOf(input));
}

export function neededFor(blocks: readonly Block[]): PromptCapability[] {
  return [
    ...(blocks.some(({ type }) => type === 'image') ? (['image'] as const) : []),
    ...(blocks.some(({ type }) => type === 'resource') ? (['embeddedContext'] as const) : []),
  ];
}

/**
 * Reads the files that a prompt names. Paths are relative to `folder`, the workspace; one that leads out of it, by `..`
 * or by a link, is a `VALIDATION_ERROR`, and so is a file of more than `maxBytes`, or files of more than four times that.
 */
export async function readPrompt(blocks: readonly Block[], folder: string, maxBytes: number): Promise<ContentBlock[]> {
  const read: ContentBlock[] = [];
  const left: Left = { maxBytes, bytes: MAX_LARGEST * maxBytes };
  for (const [index, block] of blocks.entries())
    try {
      read.push(await contentOf(block, folder, left));
    } catch (error) {
      if (!(error instanceof HoldfastError)) throw error;
      throw new HoldfastError(error.code, `input.prompt[${index}]: ${error.message}`);
    }
  return read;
}

interface Left {
  /** Of one file. */
  readonly maxBytes: number;
  /** Of all that are still to come. */
  bytes: number;
}

async function contentOf(block: Block, folder: string, left: Left): Promise<ContentBlock> {
  if (block.type === 'text') return { type: 'text', text: block.text };
  if ('data' in block) return { type: 'image', data: block.data, mimeType: block.mimeType };
  const file = await openInside(folder, block.path);
  try {
    const uri = pathToFileURL(file.path).href;
    const mimeType = mediaTypeOf(file.path);
    if (block.type === 'resource_link') return { type: 'resource_link', uri, name: basename(file.path), mimeType };
    const takes = `path ${JSON.stringify(block.path)} takes ${file.bytes} bytes`;
    if (file.bytes > left.maxBytes) throw invalid(`${takes}; the limit is ${left.maxBytes} (maxAttachmentBytes)`);
    left.bytes -= file.bytes;
    if (left.bytes < 0)
      throw invalid(`${takes}; all files together may have ${MAX_LARGEST * left.maxBytes} (4 × maxAttachmentBytes)`);
    const bytes = await file.handle.readFile();
    if (block.type === 'resource') return { type: 'resource', resource: { uri, mimeType, ...bodyOf(bytes) } };
    if (!IMAGE_TYPES.some((type) => type === mimeType))
      throw invalid(`path ${JSON.stringify(block.path)} is no image of type ${IMAGE_TYPES.join(', ')}`);
    return { type: 'image', data: bytes.toString('base64'), mimeType, uri };
  } finally {
    await file.handle.close();
  }
}

/** Text where it is text, else its bytes. */
function bodyOf(bytes: Buffer): { text: string } | { blob: string } {
  try {
    const words = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    if (!words.includes('\0')) return { text: words };
  } catch {
    // Not UTF-8.
  }
  return { blob: bytes.toString('base64') };
}

function problemOf(input: Json): string {
  if (typeof input === 'object' && input !== null && !Array.isArray(input) && Array.isArray(input.prompt)) {
    for (const [index, block] of input.prompt.entries()) {
      if (blockSchema.safeParse(block).success) continue;
      const type = typeof block === 'object' && block !== null && !Array.isArray(block) ? block.type : undefined;
      return `input.prompt[${index}] is of type ${JSON.stringify(type ?? null)} and does not fit: there is {"type": "text", "text"}, {"type": "image", "path"} or {"data", "mimeType"}, {"type": "resource", "path"}, {"type": "resource_link", "path"}`;
    }
  }
  return 'input must be a non-empty string, {"text": …} or {"prompt": [{"type": "text", "text": …}, …]}, and nothing beside it';
}

function invalid(message: string): HoldfastError {
  return new HoldfastError('VALIDATION_ERROR', message);
}
