/** Paths that may hold links: where they really lead, and whether that is inside a folder. */
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, realpath } from 'node:fs/promises';
import { basename, dirname, isAbsolute, join, normalize, relative, resolve, sep } from 'node:path';
import { HoldfastError } from '../../protocol/errors.js';

/** Whether `path` is `folder` or below it. Compares the words only: both are absolute and have no links in them. */
export function isInside(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way));
}

/**
 * Where `path` really leads, links resolved; of what is not there, its deepest folder that is. Undefined where nobody
 * can tell (a link to nothing, a circle, a folder that may not be read).
 */
export async function realPathOf(path: string): Promise<string | undefined> {
  let rest = '';
  for (let at = resolve(path); ; at = dirname(at)) {
    try {
      return join(await realpath(at), rest);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT' || dirname(at) === at) return undefined;
      if (await isLink(at)) return undefined;
      rest = join(basename(at), rest);
    }
  }
}

async function isLink(path: string): Promise<boolean> {
  return await lstat(path).then(
    (found) => found.isSymbolicLink(),
    () => false,
  );
}

export interface InsideFile {
  readonly handle: FileHandle;
  /** Absolute, without links. */
  readonly path: string;
  readonly bytes: number;
}

/**
 * Opens a regular file below `folder` for reading. `given` is relative to it, or absolute and inside. Whoever calls
 * closes the handle. Throws `VALIDATION_ERROR` for a path that leads out, by `..` or by a link, and for what is no file.
 */
export async function openInside(folder: string, given: string): Promise<InsideFile> {
  const refuse = (why: string) => new HoldfastError('VALIDATION_ERROR', `path ${JSON.stringify(given)} ${why}`);
  if (given === '' || given.includes('\0')) throw refuse('is no path');
  const root = await realpath(folder);
  const wanted = isAbsolute(given) ? normalize(given) : resolve(root, given);
  if (!isInside(root, wanted) && !isInside(resolve(folder), wanted)) throw refuse('leads out of the workspace');
  const real = await realPathOf(wanted);
  if (real === undefined || !isInside(root, real)) throw refuse('leads out of the workspace, by a link');
  let handle: FileHandle;
  try {
    // The last part is no link any more; should it become one now, this fails. A pipe is not waited for.
    handle = await open(real, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  } catch (error) {
    throw refuse((error as NodeJS.ErrnoException).code === 'ENOENT' ? 'is not there' : 'cannot be read');
  }
  try {
    const found = await handle.stat();
    if (!found.isFile()) throw refuse('is no regular file');
    return { handle, path: real, bytes: found.size };
  } catch (error) {
    await handle.close();
    throw error;
  }
}
