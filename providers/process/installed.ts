/** Whether what a worker's configuration names is on this machine: told when the worker starts, not at the first turn only. */
import { constants } from 'node:fs';
import { access, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import type { ProviderHost } from '../provider.js';

/** Where the system looks when a child has no PATH at all. */
const DEFAULT_PATH = '/bin:/usr/bin';

interface Program {
  readonly command: string;
  readonly cwd?: string | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  readonly passEnv?: readonly string[] | undefined;
  readonly secretEnv?: Readonly<Record<string, string>> | undefined;
}

/**
 * Looks at each program's command and folder, and at the folders by name, and warns of every one that is missing: it may
 * still come, and a worker does other things too. `list` is how the configuration calls the programs.
 */
export async function warnOfMissing(
  host: Pick<ProviderHost, 'log'>,
  provider: string,
  list: string,
  programs: Readonly<Record<string, Program>>,
  folders: Readonly<Record<string, string>>,
): Promise<void> {
  const problems: string[] = [];
  for (const [name, program] of Object.entries(programs)) {
    const command = await commandProblem(program);
    if (command !== undefined) problems.push(`${list}.${name}.command: ${command}`);
    if (program.cwd !== undefined && !(await isFolder(program.cwd)))
      problems.push(`${list}.${name}.cwd: ${program.cwd} is not there, or is no folder`);
  }
  for (const [name, folder] of Object.entries(folders))
    if (!(await isFolder(folder))) problems.push(`workspaces.${name}: ${folder} is not there, or is no folder`);
  for (const problem of problems) host.log('warn', `${problem}; executions that need it will fail`, { provider });
}

async function commandProblem({ command, env, passEnv, secretEnv }: Program): Promise<string | undefined> {
  if (isAbsolute(command))
    return (await isProgram(command)) ? undefined : `${command} is not there, or cannot be executed`;
  const path = secretEnv?.PATH ?? env?.PATH ?? (passEnv?.includes('PATH') === true ? process.env.PATH : undefined);
  for (const folder of (path ?? DEFAULT_PATH).split(delimiter))
    if (isAbsolute(folder) && (await isProgram(join(folder, command)))) return undefined;
  return path === undefined
    ? `there is no ${command} in ${DEFAULT_PATH}, and its environment has no PATH (passEnv: ["PATH"])`
    : `there is no ${command} in the PATH of its environment`;
}

async function isProgram(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isFile() !== true) return false;
  return await access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() === true;
}
