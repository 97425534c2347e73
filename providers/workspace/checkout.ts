/**
 * A `git` workspace: the remote's state in a repository of ours (`repo.git`), a clone of it for the agent (`files`), and
 * after each turn what changed. Ours is where changes are found, since the agent's own can be told to run programs.
 */
import { randomBytes } from 'node:crypto';
import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { git } from './git.js';
import type { GitWorkspace } from './options.js';
import type { GitRecord } from './record.js';
import { checkNoLinks, checkRealFolder } from './tree.js';

const REPOSITORY = 'repo.git';
const BASE = 'refs/holdfast/base';
const WHO = {
  GIT_AUTHOR_NAME: 'Holdfast',
  GIT_AUTHOR_EMAIL: 'holdfast@localhost',
  GIT_COMMITTER_NAME: 'Holdfast',
  GIT_COMMITTER_EMAIL: 'holdfast@localhost',
};
const SUBMODULE = '160000';

/** All that is to be in our repository's configuration. */
const CONFIG = '[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n';

/** What would have git read another configuration, or other objects, than ours. */
const REDIRECTIONS = ['commondir', 'config.worktree', join('objects', 'info', 'alternates')];

/** Before git runs in our repository again: it is where it was, keeps what it has there, and is configured as it was. */
export async function restore(folder: string): Promise<void> {
  const repository = join(folder, REPOSITORY);
  await checkRealFolder(repository);
  await checkRealFolder(join(folder, 'files'));
  for (const place of ['', 'objects', join('objects', 'info')]) await checkNoLinks(join(repository, place));
  for (const name of REDIRECTIONS) await rm(join(repository, name), { recursive: true, force: true });
  const config = join(repository, `.config-${randomBytes(9).toString('base64url')}`);
  await writeFile(config, CONFIG, { flag: 'wx', mode: 0o600 });
  await rename(config, join(repository, 'config'));
}

/** Fetches the remote and clones it to `folder/files`, complete or not at all. */
export async function checkOut(
  workspace: GitWorkspace,
  folder: string,
  branch: string,
  signal: AbortSignal,
): Promise<GitRecord> {
  const { remote, ref, depth, timeoutMs } = workspace;
  const repository = join(folder, REPOSITORY);
  await rm(repository, { recursive: true, force: true });
  await git(['init', '--quiet', '--bare', '--template=', repository], { cwd: folder, signal });
  const shallow = depth === 'full' ? [] : [`--depth=${depth}`];
  const fetch = ['fetch', '--quiet', '--no-tags', ...shallow, '--', remote, `+${ref}:${BASE}`];
  await git(fetch, { cwd: repository, timeoutMs, signal, remote: true });
  const base = (await git(['rev-parse', '--verify', `${BASE}^{commit}`], { cwd: repository })).trim();

  const fresh = join(folder, `.files-${randomBytes(9).toString('base64url')}`);
  const inside = { cwd: fresh, timeoutMs, signal };
  await git(['init', '--quiet', '--template=', fresh], { cwd: folder, signal });
  await git(['fetch', '--quiet', '--no-tags', ...shallow, `file://${repository}`, BASE], inside);
  await git(['checkout', '--quiet', '-B', branch, 'FETCH_HEAD'], inside);
  await git(['remote', 'add', 'origin', remote], inside);
  await rename(fresh, join(folder, 'files'));

  return await withIndex(folder, base, async (run) => {
    const listed = (await run(['ls-files', '--stage', '-z'])).split('\0').filter((line) => line.startsWith(SUBMODULE));
    const submodules = listed.map((line) => line.replace(/^(\d+) (\w+) \d+\t/, '$1 $2 '));
    const paths = submodules.map((line) => line.split(' ').slice(2).join(' '));
    if (paths.length > 0)
      await run(['update-index', '-z', '--force-remove', '--stdin'], paths.map((path) => `${path}\0`).join(''));
    const tree = (await run(['write-tree'])).trim();
    return { base, baseTree: tree, tree, submodules };
  });
}

type Run = (args: readonly string[], input?: string) => Promise<string>;

/** Works with an index of its own, so that one left behind by a killed worker is in nobody's way. */
async function withIndex<T>(folder: string, tree: string, work: (run: Run) => Promise<T>): Promise<T> {
  const index = join(folder, `.index-${randomBytes(9).toString('base64url')}`);
  const own = [`--git-dir=${join(folder, REPOSITORY)}`, `--work-tree=${join(folder, 'files')}`];
  const run: Run = (args, input) =>
    git([...own, ...args], {
      cwd: join(folder, 'files'),
      env: { GIT_INDEX_FILE: index, ...WHO },
      ...(input === undefined ? {} : { input }),
    });
  try {
    await run(['read-tree', tree]);
    return await work(run);
  } finally {
    await rm(index, { force: true });
    await rm(`${index}.lock`, { force: true });
  }
}

/**
 * The files as they are now, as a tree in our repository. What `.gitignore` names stays out, and so do `repositories`:
 * folders with a `.git` of their own, which git would look into by their configuration.
 */
export async function takeTree(folder: string, record: GitRecord, repositories: readonly string[]): Promise<string> {
  return await withIndex(folder, record.tree, async (run) => {
    const paths = ['.', ...repositories.map((path) => `:(top,exclude,literal)${path}`)];
    await run(
      ['add', '--all', '--pathspec-from-file=-', '--pathspec-file-nul'],
      paths.map((path) => `${path}\0`).join(''),
    );
    return (await run(['write-tree'])).trim();
  });
}

/** A commit of `tree` on top of what came before, with the submodules where they were. */
export async function commitTree(folder: string, record: GitRecord, tree: string, message: string): Promise<string> {
  return await withIndex(folder, tree, async (run) => {
    if (record.submodules.length > 0) await run(['update-index', '-z', '--index-info'], submoduleLines(record));
    const whole = (await run(['write-tree'])).trim();
    return (await run(['commit-tree', whole, '-p', record.head ?? record.base, '-m', message])).trim();
  });
}

function submoduleLines({ submodules }: GitRecord): string {
  return submodules.map((line) => `${line.replace(/^(\d+) (\w+) /, '$1 $2\t')}\0`).join('');
}

/** Pushes with the worker's own credentials, and never over what somebody else has put there. */
export async function push(
  folder: string,
  { remote, timeoutMs }: GitWorkspace,
  commit: string,
  branch: string,
  signal: AbortSignal,
): Promise<void> {
  const args = ['push', '--quiet', '--no-verify', '--', remote, `${commit}:refs/heads/${branch}`];
  await git(args, { cwd: join(folder, REPOSITORY), timeoutMs, signal, remote: true });
}

export interface ChangedFile {
  readonly path: string;
  /** Lines; undefined for what is no text. */
  readonly insertions?: number;
  readonly deletions?: number;
}

/** What differs between two trees, by file. */
export async function changedFiles(folder: string, from: string, to: string): Promise<ChangedFile[]> {
  const args = ['diff-tree', '-r', '-z', '--numstat', '--no-renames', '--no-ext-diff', '--no-textconv', from, to];
  const output = await git(args, { cwd: join(folder, REPOSITORY) });
  return output
    .split('\0')
    .filter((line) => line !== '')
    .map((line) => {
      const [insertions = '-', deletions = '-', ...path] = line.split('\t');
      const lines = insertions === '-' ? {} : { insertions: Number(insertions), deletions: Number(deletions) };
      return { path: path.join('\t'), ...lines };
    });
}

/** Writes what `git apply` takes to `output`, an open file. */
export async function writePatch(folder: string, from: string, to: string, output: number): Promise<void> {
  const args = ['diff-tree', '-r', '-p', '--binary', '--full-index', '--no-renames', '--no-ext-diff', '--no-textconv'];
  await git([...args, '--no-color', from, to], { cwd: join(folder, REPOSITORY), output });
}
