/** What a request for permission is about, read from its tool's input: the command, and the places that it names. */
import { homedir } from 'node:os';
import { isAbsolute, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type CommandLine, commandLine } from './words.js';

/** Where a tool's input may name files, or the folder that it works in; written in any way: `file_path`, `filePath`. */
const PATH_FIELD =
  /^(?:(?:abs|absolute|relative|old|new|source|src|target|dest|destination|notebook|input|output)?(?:path|file|filepath|filename)s?|cwd|workdir|workingdir(?:ectory)?|dir(?:ectory)?|folder|source|src|target|dest(?:ination)?|from|to)$/;
const ADDRESS_FIELD = /^ur[il]$/;
const SCHEME = /^[A-Za-z][A-Za-z0-9+.-]+:/;

/** Objects in objects; what is deeper is a tool's data. */
const MAX_LEVELS = 4;

export type Fields = Readonly<Record<string, unknown>>;

/** The command that a tool's input tells of, if it does. */
export function commandIn(input: Fields): CommandLine | undefined {
  return commandOf(input.command, input.args) ?? commandOf(input.cmd, input.args);
}

/** Several commands are one that is more than plain words. */
export function commandAmong(inputs: readonly Fields[]): CommandLine | undefined {
  const commands = inputs.flatMap((input) => commandIn(input) ?? []);
  return commands.length < 2
    ? commands[0]
    : { kind: 'compound', words: [], parts: commands.flatMap(({ parts }) => parts) };
}

/** The absolute paths of what is named, and whether there is something that is none. */
export class Places {
  readonly paths = new Set<string>();
  hasUnknown = false;

  /** Without a `workspace` nobody knows where a relative path begins. */
  constructor(private readonly workspace: string | undefined) {}

  /** All that the fields of a tool's input name, and those of objects and lists in it. */
  addFields(input: Fields, level = 0): void {
    if (level > MAX_LEVELS) return;
    for (const [key, value] of Object.entries(input)) {
      for (const each of Array.isArray(value) ? value : [value]) if (isObject(each)) this.addFields(each, level + 1);
      const field = key.replaceAll('_', '').toLowerCase();
      if (PATH_FIELD.test(field)) for (const each of Array.isArray(value) ? value : [value]) this.add(each);
      else if (ADDRESS_FIELD.test(field) && isFileUrl(value)) this.add(value);
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

  #addUrl(said: string): void {
    try {
      this.paths.add(fileURLToPath(said));
    } catch {
      this.hasUnknown = true;
    }
  }
}

function isObject(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isFileUrl(value: unknown): value is string {
  return typeof value === 'string' && /^file:/i.test(value);
}

/** A line for a shell, a list of words, or a program with its arguments beside it. */
function commandOf(value: unknown, args: unknown): CommandLine | undefined {
  if (isWords(value)) return commandLine(value);
  if (typeof value !== 'string') return undefined;
  if (args === undefined || args === null) return commandLine(value);
  return isWords(args) ? commandLine([value, ...args]) : { ...commandLine(value), kind: 'compound' };
}

function isWords(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((word) => typeof word === 'string');
}
