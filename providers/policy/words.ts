/**
 * The words of a command line, where it is plain: one program and its arguments, so that a rule can match them. Whatever
 * a shell would do more (operators, substitutions, variables, patterns, assignments) makes it compound, and of that only
 * a person can tell what it does.
 */
import { parse } from 'shell-quote';
import { isLauncher, scriptAt } from './launchers.js';

export interface CommandLine {
  readonly kind: 'plain' | 'compound';
  /** Of a plain one. */
  readonly words: readonly string[];
  /** The beginnings of what can be told apart in it, by which it may be denied but never allowed. */
  readonly parts: readonly (readonly string[])[];
}

/** Outside of quotes only these: no `$`, backtick, backslash, `~`, braces, patterns, `#`, `!`, line ends. */
const PLAIN = /^[\p{L}\p{N}\t _./:=@,+%^-]*$/u;
/** What is quoted and means itself. */
const QUOTED = /'[^'\n\r\0]*'|"[^"`$\\!\n\r\0]*"/g;
/** A longer one is nothing that a rule was written for. */
const MAX_LENGTH = 10_000;

/** Scripts in scripts. */
const MAX_LEVELS = 4;

/** Shells whose script is what runs, given in the simplest way. */
const SHELLS = /^(?:\/(?:usr\/)?bin\/)?(?:ba|da|z|k)?sh$/;
const SCRIPT_FLAG = /^-[a-z]*c$/;
/** What makes a word a line for a shell, if one gets it. */
const OPERATOR = /[;&|`$()<>\r\n]/;
const LINE = /[\s;&|`$()<>]/;

/** Reads a command as tools take it: a line for a shell, or a list of words that no shell sees. */
export function commandLine(command: string | readonly string[], level = 0): CommandLine {
  return typeof command === 'string' ? readLine(command, level) : readWords(command, level);
}

function readWords(words: readonly string[], level: number): CommandLine {
  const [program = '', flag = '', script] = words;
  if (words.length === 0 || words.reduce((length, word) => length + word.length + 1, 0) > MAX_LENGTH)
    return compound(words.length === 0 ? [] : [words.slice(0, 100)]);
  // No program has such a name: whoever runs it has a shell look at it.
  if (LINE.test(program)) return compound([words, ...readLine(words.join(' '), level + 1).parts]);
  // A shell with a script: what matters is the script.
  if (SHELLS.test(program) && SCRIPT_FLAG.test(flag) && script !== undefined && words.length === 3) {
    const line = readLine(script, level + 1);
    return { ...line, parts: [words, ...line.parts] };
  }
  const parts = [words, ...launched(words, level)];
  const isScripted =
    isLauncher(program) && words.some((word, at) => OPERATOR.test(word) || scriptAt(words, at) !== undefined);
  return isScripted ? compound(parts) : { kind: 'plain', words, parts };
}

/** What the words of a launcher may be scripts of. */
function launched(words: readonly string[], level: number): (readonly string[])[] {
  if (!isLauncher(words[0])) return [];
  return words.slice(1).flatMap((word) => (LINE.test(word) ? readLine(word, level + 1).parts : []));
}

function compound(parts: readonly (readonly string[])[]): CommandLine {
  return { kind: 'compound', words: [], parts };
}

function readLine(line: string, level: number): CommandLine {
  if (line.length > MAX_LENGTH || level > MAX_LEVELS) return compound([]);
  const parts = partsOf(line);
  const bare = line.replaceAll(QUOTED, 'q');
  const [words] = parts;
  if (PLAIN.test(bare) && parts.length === 1 && words !== undefined && !isAssignment(line.trimStart()))
    return readWords(words, level);
  // What a substitution in double quotes runs is in one word with what stands around it.
  const substituted = /`|\$\(/.test(line) ? partsOf(line.replaceAll(/["`()]/g, ' ; ')) : [];
  return compound([...parts, ...substituted].flatMap((part) => [part, ...launched(part, level)]));
}

/** Of every command in the line, as far as it can be read, its words up to the first that is none. */
function partsOf(line: string): string[][] {
  let tokens: ReturnType<typeof parse>;
  try {
    // Line ends separate commands like a semicolon; the library takes them for spaces.
    tokens = parse(line.replaceAll(/[\r\n]+/g, ' ; '), (name) => `$${name}`);
  } catch {
    return [];
  }
  const parts: string[][] = [];
  let current: string[] | undefined;
  for (const token of tokens) {
    if (typeof token !== 'string') current = undefined;
    else if (current !== undefined) current.push(token);
    else if (!isAssignment(token)) {
      current = [token];
      parts.push(current);
    }
  }
  return parts;
}

function isAssignment(text: string): boolean {
  return /^[A-Za-z_]\w*\+?=/.test(text);
}

/** Whether `words` begin with all of `prefix`. */
export function beginsWith(words: readonly string[], prefix: readonly string[]): boolean {
  return prefix.length <= words.length && prefix.every((word, index) => words[index] === word);
}
