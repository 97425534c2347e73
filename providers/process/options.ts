/**
 * What a worker's configuration says about a program that it starts. Shared by the providers that start one: what is
 * refused for one is refused for all, in the same words.
 */
import { isAbsolute } from 'node:path';
import { z } from 'zod';
import { HoldfastError } from '../../protocol/errors.js';
import { MARKER_VARIABLE } from './environment.js';

export const MIB = 1024 * 1024;
/** Anything shorter would be found all over an honest text. */
const MIN_SECRET_LENGTH = 4;

export const text = z.string().refine((value) => !value.includes('\0'), 'must not hold a NUL character');
export const secret = text.min(
  MIN_SECRET_LENGTH,
  `is too short to be redacted (under ${MIN_SECRET_LENGTH} characters)`,
);
export const absolutePath = text.refine(isAbsolute, 'must be an absolute path');
export const name = z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, 'a name is 1–64 of A–Z a–z 0–9 . _ -');
export const variable = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'is no name of an environment variable')
  .refine((key) => key !== MARKER_VARIABLE, `${MARKER_VARIABLE} is set by Holdfast`);

/** The program, and its whole environment: `passEnv`, `env`, `secretEnv`. Nothing else is passed on. */
export const programFields = {
  /** A name that the child's own PATH resolves, or an absolute path. */
  command: text.refine((command) => command !== '' && (isAbsolute(command) || !/[\\/]/.test(command)), {
    message: 'must be a bare command name or an absolute path: a relative one would be looked up in the workspace',
  }),
  args: z.array(text).optional(),
  env: z.record(variable, text).optional(),
  /** Names, taken from ours. */
  passEnv: z.array(variable).optional(),
  /** Like `env`; the exact values are redacted from all that is emitted. */
  secretEnv: z.record(variable, secret).optional(),
};

/** A program that a request can choose: where it works, and what else is kept out of the log. */
export const harnessFields = {
  ...programFields,
  /** The directory it works in when the request names no workspace. */
  cwd: absolutePath.optional(),
  /** The same by name, from `workspaces`. */
  workspace: name.optional(),
  /** More values to redact: those that stand inside other variables, say. */
  secrets: z.array(secret).optional(),
};

export interface Place {
  readonly cwd?: string | undefined;
  readonly workspace?: string | undefined;
}

export const onePlace = (harness: Place) => harness.cwd === undefined || harness.workspace === undefined;
export const ONE_PLACE = 'has both "cwd" and "workspace"';

/** Each default names something that is there, and each program has somewhere to work. */
export function checkPlaces(
  ctx: z.core.$RefinementCtx,
  kind: { readonly list: string; readonly fallback: string },
  harnesses: Readonly<Record<string, Place>>,
  fallback: string | undefined,
  workspaces: Readonly<Record<string, unknown>>,
): void {
  const problem = (path: string[], message: string) => ctx.addIssue({ code: 'custom', path, message });
  if (fallback !== undefined && !Object.hasOwn(harnesses, fallback))
    problem([kind.fallback], `"${fallback}" is not in "${kind.list}"`);
  for (const [key, { cwd, workspace }] of Object.entries(harnesses)) {
    if (workspace !== undefined && !Object.hasOwn(workspaces, workspace))
      problem([kind.list, key, 'workspace'], `"${workspace}" is not in "workspaces"`);
    if (cwd === undefined && workspace === undefined && Object.keys(workspaces).length === 0)
      problem([kind.list, key], 'needs "cwd", "workspace", or "workspaces" for requests to choose from');
  }
}

/** Checks a worker's configuration. Throws `VALIDATION_ERROR` that names each wrong place. */
export function checkedOptions<T>(who: string, schema: z.ZodType<T>, options: unknown): T {
  const parsed = schema.safeParse(options);
  if (parsed.success) return parsed.data;
  const problems = parsed.error.issues.map((issue) => `${issue.path.join('.') || 'options'}: ${issue.message}`);
  throw new HoldfastError('VALIDATION_ERROR', `${who}: ${problems.join('; ')}`);
}

/**
 * Where a request's program works: a workspace by name, or the program's own directory. Throws `VALIDATION_ERROR` when
 * neither is told.
 */
export function chosenPlace(
  what: string,
  program: string,
  settings: Place,
  named: string | undefined,
  workspaces: Readonly<Record<string, unknown>>,
): ChosenPlace {
  const workspace = named ?? settings.workspace;
  if (workspace !== undefined) return { workspace, place: `workspace "${workspace}"`, label: workspace };
  if (settings.cwd !== undefined)
    return { cwd: settings.cwd, place: `directory of ${what} "${program}"`, label: program };
  const message = `name a "workspace" in "config": ${Object.keys(workspaces).join(', ')}`;
  throw new HoldfastError('VALIDATION_ERROR', message);
}

export interface ChosenPlace {
  readonly workspace?: string;
  /** Where there is no workspace. */
  readonly cwd?: string;
  /** For messages: `workspace "repo"`, never the path. */
  readonly place: string;
  /** For addresses of what is in it. */
  readonly label: string;
}

/** A name that a request picks from those there are; without any there is nothing to say. */
export function pickOf(names: readonly string[], what: string): z.ZodType<string | undefined> {
  return names.length === 0 ? z.never(`there are no ${what} to choose from`).optional() : z.enum(names).optional();
}

/** Looks up the program that a request means. Throws `VALIDATION_ERROR` for a name that is not there or is missing. */
export function chosen<T>(
  what: string,
  all: Readonly<Record<string, T>>,
  named: string | undefined,
  fallback: string | undefined,
): { readonly name: string; readonly settings: T } {
  const names = Object.keys(all);
  const name = named ?? fallback ?? (names.length === 1 ? names[0] : undefined);
  const settings = name !== undefined && Object.hasOwn(all, name) ? all[name] : undefined;
  if (name !== undefined && settings !== undefined) return { name, settings };
  throw new HoldfastError(
    'VALIDATION_ERROR',
    name === undefined
      ? `name ${/^[aeiou]/.test(what) ? 'an' : 'a'} "${what}" in "config": ${names.join(', ')}`
      : `there is no ${what} ${JSON.stringify(name)}; there is ${names.join(', ')}`,
  );
}
