/** Where a command works: its own directory, or a workspace that is opened for the turn. */
import { stat } from 'node:fs/promises';
import { HoldfastError } from '../../protocol/errors.js';
import type { RunContext } from '../provider.js';
import { type OpenWorkspace, openFolder, type Workspaces } from '../workspace/workspaces.js';
import type { CommandMemory } from './memory.js';
import type { Choice } from './options.js';

/** Rejects with `PROVIDER_ERROR` when it is not there, and with what `Workspaces.open` rejects with. */
export async function openPlace(
  ctx: RunContext,
  workspaces: Workspaces,
  { cwd, workspace, place }: Choice,
  memory: CommandMemory,
): Promise<OpenWorkspace> {
  const space =
    workspace === undefined ? openFolder(cwd ?? '') : await workspaces.open(workspace, ctx, memory.rootOf(workspace));
  if (workspace !== undefined && space.rootId !== undefined) {
    memory.keepRoot(workspace, space.rootId);
    await memory.handOn(ctx);
  }
  // A missing directory would look like a missing command.
  const found = await stat(space.cwd).catch(() => undefined);
  if (found?.isDirectory() !== true)
    throw new HoldfastError('PROVIDER_ERROR', `the ${place} is not there, or is no directory`);
  return space;
}
