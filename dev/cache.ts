/**
 * The folder where downloaded programs are kept.
 *
 * A download happens in a folder of its own beside its place and is moved there by one rename, so that two processes
 * that race both end with a whole program, and one that was killed leaves only a folder that a later one clears away.
 */
import { mkdir, mkdtemp, readdir, rename, rm, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';

const TEMPORARY = '.download-';
const STALE_MS = 60 * 60 * 1000;

/**
 * `HOLDFAST_CACHE_DIR`, else `holdfast` in `XDG_CACHE_HOME`, else `~/.cache/holdfast`.
 *
 * @throws Error that says what to set, for a user who has no home: programs are never run from a folder that others can
 *   write to
 */
export function cacheFolder(env: NodeJS.ProcessEnv = process.env): string {
  if (env.HOLDFAST_CACHE_DIR) return env.HOLDFAST_CACHE_DIR;
  return join(env.XDG_CACHE_HOME || join(env.HOME || home(), '.cache'), 'holdfast');
}

function home(): string {
  try {
    return homedir();
  } catch {
    // A user id without an entry among the users, as containers have them.
    throw new Error('this user has no home folder: set HOLDFAST_CACHE_DIR to where downloaded programs are kept');
  }
}

/**
 * Lets `make` produce a file or a folder in a fresh temporary folder and moves it to `target`.
 *
 * A file at `target` is replaced. A folder that another process put there meanwhile is kept, since it holds the same.
 *
 * @param make gets the temporary folder and returns the path of what it made in it; its error is passed on, and
 *   nothing is left behind
 */
export async function installInto(target: string, make: (folder: string) => Promise<string>): Promise<void> {
  const parent = dirname(target);
  await mkdir(parent, { recursive: true });
  await removeStale(parent);
  const folder = await mkdtemp(join(parent, TEMPORARY));
  try {
    await moveTo(await make(folder), target);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function moveTo(made: string, target: string): Promise<void> {
  try {
    await rename(made, target);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== 'ENOTEMPTY' && code !== 'EEXIST') throw error;
  }
}

async function removeStale(parent: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (!name.startsWith(TEMPORARY)) continue;
    const path = join(parent, name);
    const info = await stat(path).catch(() => undefined);
    if (info && Date.now() - info.mtimeMs > STALE_MS) await rm(path, { recursive: true, force: true });
  }
}
