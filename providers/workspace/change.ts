/** What a turn changed in a `git` workspace, as the descriptor of a patch and, where it is wanted, a pushed branch. */
import { constants } from 'node:fs';
import { mkdir, open, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { ArtifactDescriptor } from '../../protocol/artifact.js';
import { HoldfastError } from '../../protocol/errors.js';
import { clip, type JsonObject } from '../../protocol/json.js';
import type { RunContext } from '../provider.js';
import { type ChangedFile, changedFiles, commitTree, push, restore, takeTree, writePatch } from './checkout.js';
import { contentOf } from './describe-file.js';
import type { GitWorkspace } from './options.js';
import { PATCHES, patchName, unfinishedName } from './patches.js';
import type { GitRecord } from './record.js';
import { realSubfolder } from './tree.js';
import { artifactUri } from './uri.js';

/** Files that a descriptor names; all are in the patch. */
const MAX_NAMED = 30;

export interface ChangeOptions {
  readonly ctx: Pick<RunContext, 'conversation' | 'execution' | 'artifact' | 'emit' | 'signal'>;
  readonly workspace: GitWorkspace;
  readonly name: string;
  readonly folder: string;
  readonly root: string;
  /** Folders with a repository of their own. */
  readonly repositories: readonly string[];
}

/** Publishes what changed since the turn before. Resolves with where git stands now. */
export async function publishChange(record: GitRecord, options: ChangeOptions): Promise<GitRecord> {
  const { ctx, folder, workspace, name, repositories } = options;
  await restore(folder);
  const tree = await takeTree(folder, record, repositories);
  if (tree === record.tree) return record;
  const { tenant, id } = ctx.conversation;
  const files = await changedFiles(folder, record.tree, tree);
  const patch = await keepPatch(record.tree, tree, options);
  let next: GitRecord = { ...record, tree };
  let branch: JsonObject | undefined;
  if (workspace.pushBranch !== undefined) {
    const head = await commitTree(folder, record, tree, `Turn ${ctx.execution.id}`);
    next = { ...next, head };
    branch = await pushed(options, head);
  }
  const uri =
    patch === undefined
      ? undefined
      : artifactUri(workspace.patchUri, patch.path, {
          tenant,
          conversation: id,
          execution: ctx.execution.id,
          workspace: name,
          path: patch.name,
        });
  const descriptor: ArtifactDescriptor = {
    name: 'changes.patch',
    mediaType: 'text/x-diff',
    ...(uri === undefined ? {} : { uri }),
    metadata: {
      kind: 'git.change',
      workspace: name,
      base: record.base,
      ...sum(files),
      changed: files.slice(0, MAX_NAMED).map((file) => ({ ...file, path: clip(file.path, 150) })),
      sinceBase: sum(await changedFiles(folder, record.baseTree, tree)),
      ...(patch === undefined ? { patch: `over ${workspace.maxPatchBytes} bytes (maxPatchBytes)` } : patch.content),
      ...(branch === undefined ? {} : { branch }),
    },
  };
  await ctx.artifact(descriptor);
  return next;
}

function sum(files: readonly ChangedFile[]): JsonObject {
  const of = (key: 'insertions' | 'deletions') => files.reduce((all, file) => all + (file[key] ?? 0), 0);
  return { files: files.length, insertions: of('insertions'), deletions: of('deletions') };
}

/** Writes the patch to a file of its own; undefined when it is too large to be kept. */
async function keepPatch(from: string, to: string, { ctx, workspace, name, folder, root }: ChangeOptions) {
  const parent = workspace.patchFolder ?? (await realSubfolder(root, PATCHES));
  if (workspace.patchFolder !== undefined) await mkdir(parent, { recursive: true, mode: 0o700 });
  const named = patchName(name, ctx.conversation, ctx.execution.id);
  const fresh = join(parent, unfinishedName());
  const file = await open(fresh, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600);
  try {
    await writePatch(folder, from, to, file.fd);
    const content = await contentOf(file);
    if (content.bytes > workspace.maxPatchBytes) return undefined;
    const path = join(parent, named);
    await rename(fresh, path);
    return { path, name: named, content: { ...content } };
  } finally {
    await file.close();
    await rm(fresh, { force: true });
  }
}

/** A push that fails leaves the work where it is, on record. */
async function pushed(options: ChangeOptions, head: string): Promise<JsonObject> {
  const { ctx, folder, workspace, name } = options;
  const branch = `${workspace.pushBranch}${ctx.conversation.id}`;
  try {
    await push(folder, workspace, head, branch, ctx.signal);
    return { name: branch, commit: head, pushed: true };
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    const problem = { workspace: name, branch, commit: head, message: error.message };
    await ctx.emit('provider.event', { name: 'workspace.push_failed', ...problem });
    return { name: branch, commit: head, pushed: false };
  }
}
