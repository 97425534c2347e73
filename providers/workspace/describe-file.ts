/** What a descriptor says of a file's content. */
import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';

export interface Content {
  readonly bytes: number;
  readonly sha256: string;
}

/** Reads all of it, in bounded memory. */
export async function contentOf(handle: FileHandle): Promise<Content> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of handle.createReadStream({ autoClose: false, start: 0 }) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return { bytes, sha256: hash.digest('hex') };
}

export function contentOfText(text: string): Content {
  const bytes = Buffer.from(text);
  return { bytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
}
