/** Removing what closed conversations have left. Which ones are closed, the server is asked. */
import { lstat } from 'node:fs/promises';
import type { ProviderHost } from '../provider.js';
import { type AgedPatches, removeAgedPatches, removePatchesOfClosed } from './patches.js';
import { recordAge } from './record.js';
import { type Kept, listKept, type OpenRoot } from './root.js';
import { finishRemovals, removeTree } from './tree.js';

/** Conversations that are asked about at once. */
const BATCH = 100;
/** A workspace that was measured so short ago is in use, whatever became of its conversation. In milliseconds. */
const IN_USE_MS = 60_000;

/** Looks now and every `everyMs` milliseconds. Resolves, when called, once the look under way is over. */
export function beginSweeping(
  host: ProviderHost,
  root: OpenRoot,
  workspaces: readonly string[],
  aged: readonly AgedPatches[],
  everyMs: number,
): () => Promise<void> {
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  const look = async (): Promise<void> => {
    try {
      const inUseMs = Math.min(IN_USE_MS, everyMs);
      await sweep(host, root, workspaces, inUseMs, () => over);
      const patches = await removePatchesOfClosed(host, root, workspaces, inUseMs, () => over);
      const old = await removeAgedPatches(aged);
      if (patches + old > 0) host.log('info', 'patches were removed', { ofClosedConversations: patches, old });
    } catch (error) {
      host.log('warn', 'workspaces of closed conversations could not be removed', { error: String(error) });
    }
    if (!over)
      timer = setTimeout(() => {
        looking = look();
      }, everyMs).unref();
  };
  let looking = look();
  return async () => {
    over = true;
    clearTimeout(timer);
    await looking;
  };
}

async function sweep(
  host: ProviderHost,
  root: OpenRoot,
  workspaces: readonly string[],
  inUseMs: number,
  isOver: () => boolean,
): Promise<void> {
  await finishRemovals(root.path);
  const kept = await listKept(root, workspaces);
  let removed = 0;
  for (let at = 0; at < kept.length && !isOver(); at += BATCH) {
    const batch = kept.slice(at, at + BATCH);
    const closed = await host.closedConversations(batch.map(({ tenant, id }) => ({ tenant, id })));
    const isClosed = ({ tenant, id }: Kept) => closed.some((each) => each.tenant === tenant && each.id === id);
    for (const each of batch.filter(isClosed)) {
      if (isOver()) return;
      const age = await recordAge(each.folder);
      if (age !== undefined && age < inUseMs) continue;
      try {
        await removeTree(root.path, each.folder);
        removed += 1;
      } catch (error) {
        // Another provider or host of the same root was quicker.
        if (await isGone(each.folder)) continue;
        const { workspace, tenant, id } = each;
        const of = { workspace, tenant, conversationId: id, error: String(error) };
        host.log('warn', 'the workspace of a closed conversation cannot be removed', of);
      }
    }
  }
  if (removed > 0)
    host.log('info', 'workspaces of closed conversations were removed', { removed, left: kept.length - removed });
}

async function isGone(folder: string): Promise<boolean> {
  return await lstat(folder).then(
    () => false,
    (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
  );
}
