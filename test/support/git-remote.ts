/** A git remote on this machine: a bare repository with one commit. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { scratchFolder } from './scratch.js';

const WHO = ['-c', 'user.name=Test', '-c', 'user.email=test@localhost'];

export interface GitRemote {
  /** Absolute path. */
  readonly path: string;
  /** Runs git in it, and gives what it says. */
  git(...args: string[]): string;
}

export function gitRemote(files: Readonly<Record<string, string>>): GitRemote {
  const folder = scratchFolder('holdfast-remote-');
  const path = join(folder, 'remote.git');
  const work = join(folder, 'work');
  const run = (cwd: string, ...args: string[]) => execFileSync('git', [...WHO, ...args], { cwd, encoding: 'utf8' });
  run(folder, 'init', '--quiet', '--bare', '--initial-branch=main', path);
  run(folder, 'init', '--quiet', '--initial-branch=main', work);
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(work, name)), { recursive: true });
    writeFileSync(join(work, name), content);
  }
  run(work, 'add', '--all');
  run(work, 'commit', '--quiet', '-m', 'first');
  run(work, 'push', '--quiet', path, 'main');
  return { path, git: (...args) => run(path, ...args) };
}
