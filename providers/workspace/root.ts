/**
 * The folder in which conversations keep their files: `<root>/<workspace>/<tenant>.<conversation>/`. It has an identity,
 * so that a turn that comes to another host finds the same root or learns that it is another.
 */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { link, mkdir, open, opendir, readdir, realpath, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { HoldfastError } from '../../protocol/errors.js';
import type { ConversationRef } from '../provider.js';
import type { Root } from './options.js';
import { realSubfolder } from './tree.js';

const MARKER = '.holdfast-root';
const MAX_MARKER = 200;

export interface OpenRoot {
  /** Absolute, without links. */
  readonly path: string;
  /** The same for all hosts that share it. */
  readonly id: string;
}

/** Finds the root and its identity; one that is not shared is made. Throws `VALIDATION_ERROR` that says what to do. */
export async function openRoot({ path: given, sharedAs }: Root): Promise<OpenRoot> {
  const wrong = (why: string) => new HoldfastError('VALIDATION_ERROR', `workspaceRoot.path: ${given} ${why}`);
  if (sharedAs === undefined) await mkdir(given, { recursive: true, mode: 0o700 }).catch(() => {});
  const path = await realpath(given).catch(() => undefined);
  if (path === undefined) throw wrong('is not there, or cannot be made');
  let id = await readMarker(path);
  if (sharedAs === undefined) {
    id ??= await makeMarker(path).catch((error: unknown) => {
      throw wrong(`cannot be written: ${String(error)}`);
    });
    return { path, id };
  }
  if (id === sharedAs) return { path, id };
  const advice = `echo ${sharedAs} > ${join(given, MARKER)}`;
  throw wrong(
    id === undefined
      ? `holds no ${MARKER}: is the shared folder mounted? To begin with it: ${advice}`
      : `is the root "${id}" and not "${sharedAs}" (sharedAs)`,
  );
}

async function readMarker(root: string): Promise<string | undefined> {
  try {
    const file = await open(join(root, MARKER), constants.O_RDONLY | constants.O_NOFOLLOW);
    try {
      const { buffer, bytesRead } = await file.read(Buffer.alloc(MAX_MARKER), 0, MAX_MARKER, 0);
      return buffer.toString('utf8', 0, bytesRead).trim() || undefined;
    } finally {
      await file.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Two workers that begin at once agree on one. */
async function makeMarker(root: string): Promise<string> {
  const own = join(root, `${MARKER}.${randomBytes(9).toString('base64url')}`);
  await writeFile(own, `host-${randomBytes(9).toString('base64url')}\n`, { flag: 'wx', mode: 0o600 });
  try {
    await link(own, join(root, MARKER));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    await rm(own, { force: true });
  }
  const id = await readMarker(root);
  if (id === undefined) throw new Error(`${MARKER} is empty`);
  return id;
}

/** The folder of one conversation's workspace; its parents are there and real afterwards, it may not be. */
export async function conversationFolder(
  { path }: OpenRoot,
  workspace: string,
  { tenant, id }: ConversationRef,
): Promise<string> {
  // Both are checked at the edge; here they become a path.
  if (![tenant, id].every((part) => /^[A-Za-z0-9_-]{1,128}$/.test(part)))
    throw new HoldfastError('INTERNAL_ERROR', 'a conversation whose id is no name of a folder');
  return join(await realSubfolder(path, workspace), `${tenant}.${id}`);
}

export interface Kept extends ConversationRef {
  readonly workspace: string;
  readonly folder: string;
}

/** All that is kept under these names. */
export async function listKept({ path }: OpenRoot, workspaces: readonly string[]): Promise<Kept[]> {
  const kept: Kept[] = [];
  for (const workspace of workspaces) {
    const parent = await realSubfolder(path, workspace);
    for await (const entry of await opendir(parent)) {
      const [, tenant, id] = /^([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/.exec(entry.name) ?? [];
      if (entry.isDirectory() && tenant !== undefined && id !== undefined)
        kept.push({ workspace, tenant, id, folder: join(parent, entry.name) });
    }
  }
  return kept;
}

/** The names under which anything is kept. */
export async function keptNames({ path }: OpenRoot): Promise<string[]> {
  const entries = await readdir(path, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith('.')).map(({ name }) => name);
}
