/**
 * Commands that run other commands. A rule that denies `rm` means `sudo rm`, `env A=1 rm`, `/bin/rm` and `bash -c "rm"`
 * too, and one that denies `git push` means `git -C elsewhere push`. Only rules that deny or ask look so far: that they
 * match too much costs a question, and that they match too little costs what they were written for.
 */

/** What stands behind them, wherever, may be what runs. */
const LAUNCHERS = new Set([
  ...[
    'sudo',
    'doas',
    'su',
    'runuser',
    'pkexec',
    'env',
    'command',
    'builtin',
    'exec',
    'eval',
    'nohup',
    'nice',
    'ionice',
  ],
  ...['chrt', 'taskset', 'time', 'timeout', 'stdbuf', 'setsid', 'unshare', 'nsenter', 'chroot', 'setpriv', 'script'],
  ...['flock', 'watch', 'strace', 'ltrace', 'xargs', 'parallel', 'find', 'fd', 'busybox', 'toybox', 'ssh', 'entr'],
  ...['{', '!', 'if', 'then', 'else', 'elif', 'while', 'until', 'do', 'coproc', 'trap'],
]);
const SHELL = /^(?:ba|da|z|k|a|fi|t?c)?sh$/;
/** Options of shells that have a value. */
const VALUED = /^(?:[-+][oO]|--rcfile|--init-file)$/;

/** A program by its name alone, wherever it lies. */
export function programName(word = ''): string {
  return word.slice(word.lastIndexOf('/') + 1);
}

export function isShell(word: string | undefined): boolean {
  return SHELL.test(programName(word));
}

export function isLauncher(word: string | undefined): boolean {
  return LAUNCHERS.has(programName(word)) || isShell(word);
}

/** The script that a shell at `at` is given by `-c`, undefined when there is none. */
export function scriptAt(words: readonly string[], at: number): string | undefined {
  if (!isShell(words[at])) return undefined;
  let isScript = false;
  for (let index = at + 1; index < words.length; index++) {
    const word = words[index] ?? '';
    if (!/^[-+]/.test(word)) return isScript ? word : undefined;
    if (/^-\w*c\w*$/.test(word)) isScript = true;
    if (VALUED.test(word)) index += 1;
  }
  return undefined;
}

/** Whether the command that these words are, or one that they may launch, begins with `prefix`. */
export function mayRun(words: readonly string[], prefix: readonly string[]): boolean {
  const starts = isLauncher(words[0]) ? words.keys() : [0];
  const program = programName(prefix[0]);
  for (const start of starts)
    if (programName(words[start]) === program && mayFollow(words, start + 1, prefix)) return true;
  return false;
}

/** Whether all but the first of `prefix` stand in this order from `at` on, with nothing but options in between. */
function mayFollow(words: readonly string[], at: number, prefix: readonly string[]): boolean {
  let places = new Set([at]);
  for (const wanted of prefix.slice(1)) {
    const next = new Set<number>();
    // What is added while it goes is visited too.
    for (const place of places) {
      const word = words[place];
      if (word === wanted) next.add(place + 1);
      // An option may have a value.
      if (word?.startsWith('-')) places.add(place + 1).add(place + 2);
    }
    places = next;
  }
  return places.size > 0;
}
