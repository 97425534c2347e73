/**
 * The workspaces of one provider: what a request picks by name becomes a folder to work in. A `folder` is there already;
 * a `scratch` or `git` workspace is made for a conversation, is the same for all its turns, and goes when it is closed.
 */
import { lstat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { HoldfastError } from '../../protocol/errors.js';
import type { Json } from '../../protocol/json.js';
import type { ProviderHost, RunContext } from '../provider.js';
import { publishChange } from './change.js';
import { checkOut } from './checkout.js';
import { git } from './git.js';
import { isKept, type KeptWorkspace, type Root, type Workspace } from './options.js';
import { Pace } from './pace.js';
import { patchBytes } from './patches.js';
import { readRecord, type WorkspaceRecord, writeRecord } from './record.js';
import { conversationFolder, keptNames, listKept, type OpenRoot, openRoot } from './root.js';
import { beginSweeping } from './sweep.js';
import { checkRealFolder, type Measured, measure, realSubfolder, removeTree } from './tree.js';

/** Where a run works. */
export interface OpenWorkspace {
  /** Absolute. */
  readonly cwd: string;
  /** The root that holds it, for the turns to come. */
  readonly rootId?: string;
  /** Looks after it until `finish`: `onExceeded` is called once, when it has become too large. */
  watch(onExceeded: (error: HoldfastError) => void): void;
  /**
   * When all that worked in it has ended: measures it, and says what changed unless the run was stopped. Rejects with
   * `QUOTA_EXCEEDED` when it is too large.
   */
  finish(): Promise<void>;
}

type Context = Pick<RunContext, 'conversation' | 'execution' | 'artifact' | 'emit' | 'signal' | 'log'>;

export class Workspaces {
  readonly #all: Readonly<Record<string, Workspace>>;
  readonly #root: Root | undefined;

  constructor(all: Readonly<Record<string, Workspace>>, root: Root | undefined) {
    this.#all = all;
    this.#root = root;
  }

  /** Some of them are made for a conversation, whose turns then have to follow one another. */
  get areKept(): boolean {
    return this.#keptNames().length > 0;
  }

  /** Checks what the machine has to have, and begins to remove what closed conversations have left. */
  async start(host: ProviderHost): Promise<(() => Promise<void>) | undefined> {
    const names = this.#keptNames();
    if (this.#root === undefined || names.length === 0) return undefined;
    const root = await openRoot(this.#root);
    if (Object.values(this.#all).some(({ kind }) => kind === 'git')) await git(['--version'], { cwd: root.path });
    const aged = Object.entries(this.#all).flatMap(([workspace, of]) =>
      of.kind === 'git' && of.patchFolder !== undefined
        ? [{ workspace, folder: of.patchFolder, days: of.patchDays }]
        : [],
    );
    return beginSweeping(host, root, names, aged, this.#root.sweepMs);
  }

  /**
   * The workspace `name` for this turn. `rootId` is the root that held it in the turn before. Rejects with
   * `PROVIDER_ERROR` when that is not here or lost it, with `QUOTA_EXCEEDED` when there is no more room.
   */
  async open(name: string, ctx: Context, rootId: string | undefined): Promise<OpenWorkspace> {
    const workspace = Object.hasOwn(this.#all, name) ? this.#all[name] : undefined;
    if (workspace === undefined)
      throw new HoldfastError('VALIDATION_ERROR', `there is no workspace ${JSON.stringify(name)}`);
    if (!isKept(workspace)) return openFolder(workspace.path);
    if (this.#root === undefined) throw new HoldfastError('INTERNAL_ERROR', 'a kept workspace without a root');
    const root = await openRoot(this.#root);
    if (rootId !== undefined && rootId !== root.id) {
      await ctx.emit('provider.event', { name: 'workspace.elsewhere', workspace: name, root: rootId, here: root.id });
      throw new HoldfastError(
        'PROVIDER_ERROR',
        `the files of this conversation in workspace "${name}" are on another host: they are in the root "${rootId}", and this worker has "${root.id}". Start the turn again when only workers of that host take it, give each host a provider id of its own, or let the hosts share one root (workspaceRoot.sharedAs)`,
      );
    }
    const kept = new KeptFolder(name, workspace, root, this.#root, ctx, () => this.#taken(root));
    await kept.open(rootId !== undefined);
    return kept;
  }

  #keptNames(): string[] {
    return Object.entries(this.#all).flatMap(([name, workspace]) => (isKept(workspace) ? [name] : []));
  }

  /** Bytes of all workspaces here, of other providers too, as they were last measured, and of their patches. */
  async #taken(root: OpenRoot): Promise<number> {
    let bytes = await patchBytes(root);
    for (const { folder } of await listKept(root, await keptNames(root)))
      bytes += (await readRecord(folder))?.bytes ?? (await measure(folder)).bytes;
    return bytes;
  }
}

export function openFolder(cwd: string): OpenWorkspace {
  return { cwd, watch: () => {}, finish: async () => {} };
}

/** Of what a turn handed on, the root that holds a workspace. */
export function rootsOf(session: Json | undefined): Record<string, string> {
  if (typeof session !== 'object' || session === null || Array.isArray(session)) return {};
  const { roots } = session;
  if (typeof roots !== 'object' || roots === null || Array.isArray(roots)) return {};
  const known = Object.entries(roots).filter((entry): entry is [string, string] => typeof entry[1] === 'string');
  return Object.fromEntries(known);
}

class KeptFolder implements OpenWorkspace {
  readonly rootId: string;
  #folder = '';
  #record: WorkspaceRecord = {};
  #stopWatching: () => void = () => {};
  #measuring: Promise<void> = Promise.resolve();

  constructor(
    private readonly name: string,
    private readonly workspace: KeptWorkspace,
    private readonly root: OpenRoot,
    private readonly settings: Root,
    private readonly ctx: Context,
    private readonly taken: () => Promise<number>,
  ) {
    this.rootId = root.id;
  }

  get cwd(): string {
    return join(this.#folder, 'files');
  }

  /** @param mustBeThere an earlier turn had it */
  async open(mustBeThere: boolean): Promise<void> {
    this.#folder = await conversationFolder(this.root, this.name, this.ctx.conversation);
    const noRoom = await this.#roomProblem();
    if (noRoom !== undefined) throw noRoom;
    const record = await readRecord(this.#folder);
    if (record === undefined) {
      if (mustBeThere)
        throw new HoldfastError(
          'PROVIDER_ERROR',
          `the files of this conversation in workspace "${this.name}" are gone; start another conversation`,
        );
      return await this.#make();
    }
    await checkRealFolder(this.#folder);
    await checkRealFolder(this.cwd);
    this.#record = record;
    const problem = this.#sizeProblem(await this.#measure());
    if (problem !== undefined) throw problem;
  }

  async #make(): Promise<void> {
    const { maxTotalBytes } = this.settings;
    const taken = await this.taken();
    if (taken >= maxTotalBytes)
      throw new HoldfastError(
        'QUOTA_EXCEEDED',
        `the workspaces of this worker take ${taken} bytes; the limit is ${maxTotalBytes} (workspaceRoot.maxTotalBytes). Close conversations to make room`,
      );
    const { workspace, ctx } = this;
    const { tenant, id } = ctx.conversation;
    // Begun by a worker that was killed before it was complete.
    const begun = await lstat(this.#folder).catch(() => undefined);
    if (begun !== undefined && workspace.kind === 'git') await removeTree(this.root.path, this.#folder);
    await realSubfolder(join(this.root.path, this.name), `${tenant}.${id}`);
    if (workspace.kind === 'scratch') await realSubfolder(this.#folder, 'files');
    else this.#record = { git: await checkOut(workspace, this.#folder, `holdfast/${id}`, ctx.signal) };
    await writeRecord(this.#folder, this.#record);
    const problem = this.#sizeProblem(await this.#measure());
    if (problem !== undefined) throw problem;
  }

  watch(onExceeded: (error: HoldfastError) => void): void {
    const pace = new Pace(this.settings.measureMs, this.workspace.maxBytes, this.#record.bytes ?? 0);
    const look = async (): Promise<void> => {
      const begin = performance.now();
      let bytes: number | undefined;
      try {
        const measured = await this.#measure();
        const problem = this.#sizeProblem(measured) ?? (await this.#roomProblem());
        if (problem !== undefined) return onExceeded(problem);
        bytes = measured.bytes;
      } catch (error) {
        this.ctx.log('warn', 'a workspace cannot be measured', { workspace: this.name, error: String(error) });
      }
      again(pace.next(begin, bytes));
    };
    let over = false;
    let timer: NodeJS.Timeout | undefined;
    const again = (ms: number): void => {
      if (over) return;
      timer = setTimeout(() => {
        this.#measuring = look();
      }, ms);
    };
    this.#stopWatching = () => {
      over = true;
      clearTimeout(timer);
    };
    again(pace.first);
  }

  async finish(): Promise<void> {
    this.#stopWatching();
    await this.#measuring;
    const { ctx, name, workspace } = this;
    const measured = await this.#measure();
    if (ctx.signal.aborted) return;
    const { bytes, files, repositories } = measured;
    const { maxBytes } = workspace;
    await ctx.emit('provider.event', { name: 'workspace.used', workspace: name, bytes, files, maxBytes });
    const problem = this.#sizeProblem(measured);
    if (problem !== undefined) throw problem;
    const { git: record } = this.#record;
    if (workspace.kind !== 'git' || record === undefined) return;
    const root = this.root.path;
    const change = { ctx, workspace, name, folder: this.#folder, root, repositories: inFiles(repositories) };
    const next = await publishChange(record, change);
    this.#record = { ...this.#record, git: next };
    await writeRecord(this.#folder, this.#record);
  }

  /** Also says that the workspace is in use: nothing is removed that was measured just now. */
  async #measure(): Promise<Measured> {
    await checkRealFolder(this.#folder);
    const measured = await measure(this.#folder);
    this.#record = { ...this.#record, bytes: measured.bytes, files: measured.files };
    await writeRecord(this.#folder, this.#record);
    return measured;
  }

  async #roomProblem(): Promise<HoldfastError | undefined> {
    const { minFreeBytes } = this.settings;
    const { bavail, bsize } = await statfs(this.root.path);
    if (bavail * bsize >= minFreeBytes) return undefined;
    return new HoldfastError(
      'QUOTA_EXCEEDED',
      `the file system of the workspaces has ${bavail * bsize} bytes left; ${minFreeBytes} have to be (workspaceRoot.minFreeBytes). Make room, or close conversations`,
    );
  }

  #sizeProblem({ bytes, files }: Measured): HoldfastError | undefined {
    const { maxBytes, maxFiles } = this.workspace;
    if (bytes <= maxBytes && files <= maxFiles) return undefined;
    const what =
      bytes > maxBytes
        ? `${bytes} bytes; the limit is ${maxBytes} (maxBytes)`
        : `${files} files; the limit is ${maxFiles} (maxFiles)`;
    return new HoldfastError('QUOTA_EXCEEDED', `the workspace "${this.name}" of this conversation takes ${what}`);
  }
}

/** Repositories below the agent's folder, other than its own. */
function inFiles(repositories: readonly string[]): string[] {
  return repositories.flatMap((path) => (path.startsWith('files/') ? [path.slice('files/'.length)] : []));
}
