/** What is written down beside a conversation's files: their size when they were last measured, and where git stands. */
import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { lstat, open, rename, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';

const NAME = 'holdfast.json';
const MAX_BYTES = 1024 * 1024;

const sha = z.string().regex(/^[0-9a-f]{40,64}$/);
const gitSchema = z.object({
  /** The commit that was checked out, and its tree without submodules. */
  base: sha,
  baseTree: sha,
  /** The tree after the last turn, and its commit where there is a branch. */
  tree: sha,
  head: sha.optional(),
  /** `mode sha path` of submodules, which are not checked out. */
  submodules: z.array(z.string()).default([]),
});
export type GitRecord = z.output<typeof gitSchema>;

const recordSchema = z.object({
  bytes: z.number().nonnegative().optional(),
  files: z.number().nonnegative().optional(),
  git: gitSchema.optional(),
});
export type WorkspaceRecord = z.output<typeof recordSchema>;

/** Undefined when there is none, or none that can be read. */
export async function readRecord(folder: string): Promise<WorkspaceRecord | undefined> {
  try {
    const file = await open(join(folder, NAME), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    try {
      const { size } = await file.stat();
      if (size > MAX_BYTES) return undefined;
      const parsed = recordSchema.safeParse(JSON.parse(await file.readFile('utf8')));
      return parsed.success ? parsed.data : undefined;
    } finally {
      await file.close();
    }
  } catch {
    return undefined;
  }
}

/** Replaces it in one step, whatever stands in its place: a link is replaced, not followed. */
export async function writeRecord(folder: string, record: WorkspaceRecord): Promise<void> {
  const next = join(folder, `.${randomBytes(9).toString('base64url')}`);
  await writeFile(next, JSON.stringify(record), { flag: 'wx', mode: 0o600 });
  await rename(next, join(folder, NAME));
}

/** Milliseconds since the record was written, or since the folder was made; undefined when it is not there. */
export async function recordAge(folder: string): Promise<number | undefined> {
  const look = (path: string) => lstat(path).catch(() => undefined);
  const found = (await look(join(folder, NAME))) ?? (await look(folder));
  return found === undefined ? undefined : Date.now() - found.mtimeMs;
}
