/**
 * The words of a command line, where it is plain: one program and its arguments, so that a rule can match them. Whatever
 * a shell would do more (operators, substitutions, variables, patterns, assignments) makes it compound, and of that only
 * a person can tell what it does.
 */
import { parse } from 'shell-quote';

export type CommandLine =
  | { readonly kind: 'plain'; readonly words: readonly string[] }
  /** `parts` are the beginnings of what can be told apart in it, by which it may be denied but never allowed. */
  | { readonly kind: 'compound'; readonly parts: readonly (readonly string[])[] };

/** Outside of quotes only these: no `$`, backtick, backslash, `~`, braces, patterns, `#`, `!`, line ends. */
const PLAIN = /^[\p{L}\p{N}\t _./:=@,+%^-]*$/u;
/** What is quoted and means itself. */
const QUOTED = /'[^'\n\r\0]*'|"[^"`$\\!\n\r\0]*"/g;
/** A longer one is nothing that a rule was written for. */
const MAX_LENGTH = 10_000;

const SHELLS = /^(?:\/(?:usr\/)?bin\/)?(?:ba|da|z|k)?sh$/;
const SCRIPT_FLAG = /^-[a-z]*c$/;

/** Reads a command as tools take it: a line for a shell, or a list of words that no shell sees. */
export function commandLine(command: string | readonly string[]): CommandLine {
  if (typeof command === 'string') return readLine(command);
  const [program = '', flag = '', script, ...rest] = command;
  // A shell with a script: what matters is the script.
  if (SHELLS.test(program) && SCRIPT_FLAG.test(flag) && script !== undefined) {
    const line = readLine(script);
    return rest.length === 0 ? line : { kind: 'compound', parts: line.kind === 'plain' ? [line.words] : line.parts };
  }
  return command.length === 0 ? { kind: 'compound', parts: [] } : { kind: 'plain', words: command };
}

function readLine(line: string): CommandLine {
  if (line.length > MAX_LENGTH) return { kind: 'compound', parts: [] };
  const parts = partsOf(line);
  const bare = line.replaceAll(QUOTED, 'q');
  const [words] = parts;
  const isPlain = PLAIN.test(bare) && parts.length === 1 && words !== undefined && !isAssignment(line.trimStart());
  return isPlain ? { kind: 'plain', words } : { kind: 'compound', parts };
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
