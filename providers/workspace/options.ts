/** What a worker's configuration says about workspaces: the folders that its agents work in. */
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { milliseconds } from '../../protocol/duration.js';
import { absolutePath, name, text } from '../process/options.js';
import { uriTemplate } from './uri.js';

const GIB = 1024 ** 3;
const bytes = z
  .int()
  .min(1)
  .max(1024 * GIB);

/** How much one conversation may keep. */
const keptFields = {
  maxBytes: bytes.default(GIB),
  maxFiles: z.int().min(1).max(10_000_000).default(200_000),
};

/** Nothing that git would take for an option or a program, and no password: those are git's own configuration's. */
function remoteProblem(remote: string): string | undefined {
  if (isAbsolute(remote)) return undefined;
  if (/^[a-z]+:\/\/[^/@]*:[^/@]*@/i.test(remote))
    return 'must not hold a password: git finds it by its own configuration';
  if (/^(?:https?|ssh|git|file):\/\/[^\s-]\S*$/i.test(remote)) return undefined;
  if (/^[A-Za-z0-9_.][\w.-]*@[A-Za-z0-9][\w.-]*:(?!-)\S+$/.test(remote)) return undefined;
  return 'must be an https, http, ssh, git or file URL, user@host:path, or an absolute path';
}

const problem =
  (find: (value: string) => string | undefined) =>
  (value: string, ctx: z.core.$RefinementCtx): void => {
    const message = find(value);
    if (message !== undefined) ctx.addIssue({ code: 'custom', message });
  };

const ref = z
  .string()
  .max(250)
  .regex(/^[A-Za-z0-9_][\w./+-]*$/, 'must be a branch, a tag or a commit')
  .refine((value) => !value.includes('..') && !value.endsWith('.lock'), 'must be a branch, a tag or a commit');

const gitSchema = z.strictObject({
  kind: z.literal('git'),
  ...keptFields,
  remote: text.superRefine(problem(remoteProblem)),
  ref: ref.default('HEAD'),
  /** Commits of history that come along; `full` for all. */
  depth: z.union([z.int().min(1).max(1_000_000), z.literal('full')]).default(1),
  /** Of one fetch or push. */
  timeoutMs: milliseconds.default(10 * 60_000),
  /** Patch files: an absolute folder of their own, else in the root, where they go with their conversation. */
  patchFolder: absolutePath.optional(),
  /** For so many days patches are kept in `patchFolder`. */
  patchDays: z.int().min(1).max(36_500).default(30),
  /** Where patches are to be fetched; by default the file on its host. */
  patchUri: uriTemplate.optional(),
  /** A larger patch is not kept: its descriptor has the figures alone. */
  maxPatchBytes: bytes.default(16 * 1024 * 1024),
  /** After each turn the state is pushed to the branch of this prefix and the conversation's id. */
  pushBranch: ref.optional(),
});

const kindsSchema = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('folder'), path: absolutePath }),
  z.strictObject({ kind: z.literal('scratch'), ...keptFields }),
  gitSchema,
]);

/** A path is short for a folder. */
export const workspacesSchema = z.record(
  name,
  z.union([absolutePath.transform((path) => ({ kind: 'folder' as const, path })), kindsSchema], {
    error: ({ input }) => unionProblem(input),
  }),
);
export type Workspace = z.output<typeof kindsSchema>;
export type KeptWorkspace = Exclude<Workspace, { kind: 'folder' }>;
export type GitWorkspace = Extract<Workspace, { kind: 'git' }>;

/** Of a union zod says that nothing fits; what is meant here is told by `kind`. */
function unionProblem(input: unknown): string {
  const parsed = typeof input === 'string' ? absolutePath.safeParse(input) : kindsSchema.safeParse(input);
  const issues = parsed.error?.issues ?? [];
  return issues.map(({ path, message }) => (path.length === 0 ? message : `${path.join('.')}: ${message}`)).join('; ');
}

export const rootSchema = z.strictObject({
  /** Absolute; kept workspaces live in it and nothing else of yours should. */
  path: absolutePath,
  /**
   * Says that several hosts share the folder, under this name. The folder has to hold a file `.holdfast-root` with the
   * name in it, so that a mount that is missing is noticed.
   */
  sharedAs: name.optional(),
  /** Of all in it. A new workspace is refused beyond that. */
  maxTotalBytes: bytes.default(20 * GIB),
  /** Room that has to be left on the root's file system; a turn that finds or leaves less is refused or ended. */
  minFreeBytes: z
    .int()
    .min(0)
    .default(100 * 1024 * 1024),
  /** How often workspaces of closed conversations are looked for and removed. */
  sweepMs: milliseconds.default(10 * 60_000),
  /** How often a workspace in use is measured at the least, unless that takes long. */
  measureMs: milliseconds.default(5000),
});
export type Root = z.output<typeof rootSchema>;

export const isKept = (workspace: Workspace): workspace is KeptWorkspace => workspace.kind !== 'folder';

/** Kept workspaces need somewhere to be. */
export function checkRoot(
  ctx: z.core.$RefinementCtx,
  workspaces: Readonly<Record<string, Workspace>>,
  root: Root | undefined,
): void {
  if (root !== undefined) return;
  for (const [key, workspace] of Object.entries(workspaces))
    if (isKept(workspace)) {
      const message = `kind "${workspace.kind}" needs "workspaceRoot"`;
      ctx.addIssue({ code: 'custom', path: ['workspaces', key], message });
    }
}

/** The folders by name, for a look whether they are there. */
export function foldersOf(workspaces: Readonly<Record<string, Workspace>>): Record<string, string> {
  const folders = Object.entries(workspaces).flatMap(([key, workspace]) =>
    workspace.kind === 'folder' ? [[key, workspace.path] as const] : [],
  );
  return Object.fromEntries(folders);
}
