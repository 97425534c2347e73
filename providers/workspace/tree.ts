/** Folders that an agent had for itself: measured, verified and removed without ever following a link. */
import { randomBytes } from 'node:crypto';
import { chmod, lstat, mkdir, opendir, readdir, realpath, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { HoldfastError } from '../../protocol/errors.js';

export interface Size {
  /** As the disk counts. */
  readonly bytes: number;
  readonly files: number;
}

export interface Measured extends Size {
  /** Folders with a `.git` of their own, relative to the measured one; itself not among them. */
  readonly repositories: readonly string[];
}

/** Measures `folder`. What vanishes meanwhile, or may not be read, counts as nothing. Never follows a link. */
export async function measure(folder: string): Promise<Measured> {
  let bytes = 0;
  let files = 0;
  const repositories: string[] = [];
  const open = [''];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const entries = await opendir(join(folder, at)).catch(() => undefined);
    if (entries === undefined) continue;
    for await (const entry of entries) {
      const path = at === '' ? entry.name : join(at, entry.name);
      if (entry.name === '.git' && at !== '') repositories.push(at);
      const found = await lstat(join(folder, path)).catch(() => undefined);
      if (found === undefined) continue;
      files += 1;
      bytes += found.blocks * 512;
      if (found.isDirectory()) open.push(path);
    }
  }
  return { bytes, files, repositories };
}

/** `folder` must be a real folder at its real place: no part of its path is a link. Throws `PROVIDER_ERROR`. */
export async function checkRealFolder(folder: string): Promise<void> {
  const real = await realpath(folder).catch(() => undefined);
  const found = await lstat(folder).catch(() => undefined);
  if (real !== folder || found?.isDirectory() !== true)
    throw new HoldfastError('PROVIDER_ERROR', 'the folder of a workspace is not there, or was replaced by a link');
}

/** None of what is directly in `folder` is a link; a folder that is not there is fine. Throws `PROVIDER_ERROR`. */
export async function checkNoLinks(folder: string): Promise<void> {
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  if (entries.some((entry) => entry.isSymbolicLink()))
    throw new HoldfastError('PROVIDER_ERROR', 'a part of a workspace was replaced by a link');
}

/** Makes `name` in a real folder, or finds it there as a real folder. */
export async function realSubfolder(parent: string, name: string): Promise<string> {
  const folder = join(parent, name);
  await mkdir(folder, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EEXIST') throw error;
  });
  await checkRealFolder(folder);
  return folder;
}

const REMOVED = '.removed';

/** Takes `folder` away: out of sight at once, then for good. Links in it are removed, never followed. */
export async function removeTree(root: string, folder: string): Promise<void> {
  await checkRealFolder(folder);
  const removed = join(await realSubfolder(root, REMOVED), randomBytes(9).toString('base64url'));
  await rename(folder, removed);
  await removeForGood(removed);
}

/** What an earlier process had begun to remove. */
export async function finishRemovals(root: string): Promise<void> {
  const folder = await realSubfolder(root, REMOVED);
  for await (const entry of await opendir(folder)) await removeForGood(join(folder, entry.name));
}

async function removeForGood(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true, maxRetries: 2 });
  } catch {
    // Folders that may not be written, as some package managers leave them.
    await makeWritable(path);
    await rm(path, { recursive: true, force: true, maxRetries: 2 });
  }
}

async function makeWritable(folder: string): Promise<void> {
  const open = [folder];
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if ((await lstat(at).catch(() => undefined))?.isDirectory() !== true) continue;
    await chmod(at, 0o700).catch(() => {});
    const entries = await opendir(at).catch(() => undefined);
    if (entries === undefined) continue;
    for await (const entry of entries) if (entry.isDirectory()) open.push(join(at, entry.name));
  }
}
