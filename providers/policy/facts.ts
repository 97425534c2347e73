/** What a request for permission is about, read from its tool's input: the command, and the places that it names. */
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type CommandLine, commandLine } from './words.js';

/** Where a tool's input may name files, or the folder that it works in; written in any way: `file_path`, `filePath`. */
const PATH_FIELD =
  /^(?:(?:abs|absolute|relative|old|new|source|src|target|dest|destination|notebook|input|output)?(?:path|file|filepath|filename)s?|cwd|workdir|workingdir(?:ectory)?|dir(?:ectory)?|folder|source|src|target|dest(?:ination)?|from|to)$/;
const ADDRESS_FIELD = /^(?:file)?ur[il]s?$/;
const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]+:/;

/** Objects and lists in objects; what is deeper nobody looks at. */
const MAX_LEVELS = 4;

export type Fields = Readonly<Record<string, unknown>>;

/** All commands that a tool's input tells of, on any level. Several different ones are one that is more than plain words. */
export function commandIn(input: Fields): CommandLine | undefined {
  const commands = new Map<string, CommandLine>();
  for (const { command, cmd, args } of objectsIn(input).objects)
    for (const value of [command, cmd]) {
      const line = commandOf(value, args);
      if (line !== undefined) commands.set(JSON.stringify(line), line);
    }
  const [first, ...others] = commands.values();
  return first === undefined || others.length === 0
    ? first
    : compound([first, ...others].flatMap(({ parts }) => parts));
}

/** The absolute paths of what is named, and whether there is something that is none. */
export class Places {
  readonly paths = new Set<string>();
  hasUnknown = false;

  /** Without a `workspace` nobody knows where a relative path begins. */
  constructor(private readonly workspace: string | undefined) {}

  /** All that the fields of a tool's input name, and those of objects and lists in it. */
  addFields(input: Fields): void {
    const { objects, isCut } = objectsIn(input);
    if (isCut) this.hasUnknown = true;
    for (const fields of objects)
      for (const [key, value] of Object.entries(fields)) {
        const kind = kindOf(key);
        if (kind === undefined) continue;
        for (const each of Array.isArray(value) ? value.flat(MAX_LEVELS) : [value])
          if (typeof each === 'string') this.#addSaid(each, kind);
          // Lists of files hold objects with a path beside its text.
          else if (each !== null && each !== undefined && !(Array.isArray(value) && namesPlace(each)))
            this.hasUnknown = true;
      }
  }

  add(said: unknown): void {
    if (typeof said !== 'string' || said === '') return;
    if (said.startsWith('~')) {
      // Some tools put a home folder there, which one nobody says. A rule that denies the worker's means this too.
      this.hasUnknown = true;
      if (/^~(?:\/|$)/.test(said)) this.paths.add(join(homedir(), said.slice(1)));
    } else if (/^file:/i.test(said)) this.#addUrl(said);
    else if (SCHEME.test(said) && said.includes('://')) this.hasUnknown = true;
    if (this.workspace === undefined && !isAbsolute(said)) this.hasUnknown = true;
    this.paths.add(resolve(this.workspace ?? '.', said));
  }

  #addSaid(said: string, kind: 'path' | 'address'): void {
    const isRemote = kind === 'address' && SCHEME.test(said) && !/^file:/i.test(said);
    if (!isRemote) this.add(said);
    // Whoever takes it for a path goes up from there.
    else if (said.split(/[/\\]/).includes('..')) this.hasUnknown = true;
  }

  #addUrl(said: string): void {
    try {
      this.paths.add(fileURLToPath(said));
    } catch {
      this.hasUnknown = true;
    }
  }
}

interface Found {
  readonly objects: Fields[];
  /** There is more in it that nobody looked at. */
  isCut: boolean;
}

function objectsIn(input: Fields): Found {
  const found: Found = { objects: [], isCut: false };
  collect(input, 0, found);
  return found;
}

function collect(value: unknown, level: number, found: Found): void {
  if (typeof value !== 'object' || value === null || value instanceof Date) return;
  const isList = Array.isArray(value);
  if (level > MAX_LEVELS || !(isList || isPlain(value))) found.isCut = true;
  if (level > MAX_LEVELS || ArrayBuffer.isView(value)) return;
  if (!isList) found.objects.push(value as Fields);
  for (const each of Object.values(value)) collect(each, !isList && Array.isArray(each) ? level : level + 1, found);
}

/** Made of what JSON has: what else a schema may make of an input does not show all that it holds. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

function kindOf(key: string): 'path' | 'address' | undefined {
  const field = key.replaceAll(/[-_. ]/g, '').toLowerCase();
  if (PATH_FIELD.test(field)) return 'path';
  return ADDRESS_FIELD.test(field) ? 'address' : undefined;
}

function namesPlace(value: unknown): boolean {
  return (
    typeof value === 'object' &&
    value !== null &&
    Object.entries(value).some(([key, each]) => typeof each === 'string' && kindOf(key) !== undefined)
  );
}

/** A line for a shell, a list of words, or a program with its arguments beside it. */
function commandOf(value: unknown, args: unknown): CommandLine | undefined {
  if (value === undefined || value === null) return undefined;
  const hasNoArgs = args === undefined || args === null;
  if (typeof value === 'string' && hasNoArgs) return commandLine(value);
  const words = typeof value === 'string' ? [value].filter(Boolean) : value;
  if (isWords(words) && (hasNoArgs || isWords(args))) return commandLine([...words, ...(args ?? [])]);
  // Nobody knows how its tool reads this: it is denied by what it may be, and never allowed.
  const told = [words, args].flat().filter((word) => typeof word === 'string');
  return compound([told, ...commandLine(told.join(' ')).parts]);
}

function compound(parts: CommandLine['parts']): CommandLine {
  return { kind: 'compound', words: [], parts };
}

function isWords(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((word) => typeof word === 'string');
}
