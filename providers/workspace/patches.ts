/**
 * The patch files of `git` workspaces. In the root they belong to their conversation: they are counted with it, and go
 * when it is closed. In a folder of the worker's own they are kept for some days, whatever becomes of the conversation.
 */
import { randomBytes } from 'node:crypto';
import { lstat, opendir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ConversationRef, ProviderHost } from '../provider.js';
import type { OpenRoot } from './root.js';
import { checkRealFolder } from './tree.js';

/** In a root. */
export const PATCHES = '.patches';
const DAY_MS = 24 * 60 * 60_000;
/** Conversations that are asked about at once. */
const BATCH = 100;

export function patchName(workspace: string, { tenant, id }: ConversationRef, executionId: string): string {
  return `${workspace}.${tenant}.${id}.${executionId}.patch`;
}

/** Of a patch that is being written. */
export function unfinishedName(): string {
  return `.holdfast-${randomBytes(9).toString('base64url')}.part`;
}

/** A folder of the worker's own, and for how many days patches of a workspace stay in it. */
export interface AgedPatches {
  readonly folder: string;
  readonly workspace: string;
  readonly days: number;
}

interface Patch extends ConversationRef {
  readonly workspace: string;
  readonly path: string;
  readonly bytes: number;
  readonly ageMs: number;
}

/** Bytes of all patches in the root. */
export async function patchBytes(root: OpenRoot): Promise<number> {
  let bytes = 0;
  for await (const patch of patchesIn(join(root.path, PATCHES))) bytes += patch.bytes;
  return bytes;
}

/** Removes from the root what closed conversations left, unless it was written less than `freshMs` milliseconds ago. */
export async function removePatchesOfClosed(
  host: ProviderHost,
  root: OpenRoot,
  workspaces: readonly string[],
  freshMs: number,
  isOver: () => boolean,
): Promise<number> {
  const folder = join(root.path, PATCHES);
  if ((await lstat(folder).catch(() => undefined)) === undefined) return 0;
  await checkRealFolder(folder);
  await removeUnfinished(folder);
  const byConversation = new Map<string, Patch[]>();
  for await (const patch of patchesIn(folder)) {
    if (patch.ageMs < freshMs || !workspaces.includes(patch.workspace)) continue;
    const key = `${patch.tenant}.${patch.id}`;
    byConversation.set(key, [...(byConversation.get(key) ?? []), patch]);
  }
  const all = [...byConversation.values()];
  let removed = 0;
  for (let at = 0; at < all.length && !isOver(); at += BATCH) {
    const refs = all.slice(at, at + BATCH).flatMap(([first]) => (first === undefined ? [] : [first]));
    const closed = await host.closedConversations(refs.map(({ tenant, id }) => ({ tenant, id })));
    await checkRealFolder(folder);
    for (const { tenant, id } of closed)
      for (const { path } of byConversation.get(`${tenant}.${id}`) ?? []) {
        await rm(path, { force: true });
        removed += 1;
      }
  }
  return removed;
}

/** Removes from folders of the worker's own what has become too old. */
export async function removeAgedPatches(aged: readonly AgedPatches[]): Promise<number> {
  let removed = 0;
  for (const { folder, workspace, days } of aged) {
    await removeUnfinished(folder);
    for await (const patch of patchesIn(folder)) {
      if (patch.workspace !== workspace || patch.ageMs < days * DAY_MS) continue;
      await rm(patch.path, { force: true });
      removed += 1;
    }
  }
  return removed;
}

/** What a worker that was killed had begun to write. */
async function removeUnfinished(folder: string): Promise<void> {
  for await (const { name, path, ageMs } of filesIn(folder))
    if (/^\.holdfast-[\w-]+\.part$/.test(name) && ageMs > DAY_MS) await rm(path, { force: true });
}

async function* patchesIn(folder: string): AsyncGenerator<Patch> {
  for await (const { name, ...file } of filesIn(folder)) {
    const [, workspace, tenant, id] = /^(.+)\.([\w-]+)\.([\w-]+)\.[\w-]+\.patch$/.exec(name) ?? [];
    if (workspace !== undefined && tenant !== undefined && id !== undefined) yield { workspace, tenant, id, ...file };
  }
}

/** Files directly in a folder; links are none. Nothing when it is not there. */
async function* filesIn(folder: string): AsyncGenerator<{ name: string; path: string; bytes: number; ageMs: number }> {
  const entries = await opendir(folder).catch(() => undefined);
  if (entries === undefined) return;
  for await (const { name } of entries) {
    const path = join(folder, name);
    const found = await lstat(path).catch(() => undefined);
    if (found?.isFile()) yield { name, path, bytes: found.blocks * 512, ageMs: Date.now() - found.mtimeMs };
  }
}
