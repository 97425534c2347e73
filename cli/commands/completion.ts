/** `holdfast completion`: a script for the shell that completes commands and flags. Made from the command itself. */
import type { Command } from 'commander';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

interface Known {
  /** `run`, `conversations create`. */
  readonly words: string;
  readonly description: string;
  readonly flags: readonly { readonly flag: string; readonly description: string }[];
}

export function completionScript(shell: Shell, program: Command): string {
  const commands = program.commands.flatMap((command) => [
    known(command),
    ...command.commands.map((sub) => known(sub, command)),
  ]);
  return { bash, zsh, fish }[shell](commands);
}

function known(command: Command, parent?: Command): Known {
  const words = parent === undefined ? command.name() : `${parent.name()} ${command.name()}`;
  const flags = command.options.flatMap(({ long, description }) => (long == null ? [] : [{ flag: long, description }]));
  return { words, description: command.description(), flags: [...flags, { flag: '--help', description: 'show help' }] };
}

/** What follows each word, or pair of words. */
function nexts(commands: readonly Known[]): [words: string, next: string][] {
  return commands.map(({ words, flags }) => {
    const subs = commands
      .filter((each) => each.words.startsWith(`${words} `))
      .map((each) => each.words.slice(words.length + 1));
    return [words, [...subs, ...flags.map(({ flag }) => flag)].join(' ')];
  });
}

function topLevel(commands: readonly Known[]): Known[] {
  return commands.filter(({ words }) => !words.includes(' '));
}

function bash(commands: readonly Known[]): string {
  // Pairs first: the pattern of a single word fits whatever follows it.
  const cases = nexts(commands)
    .sort(([a], [b]) => b.split(' ').length - a.split(' ').length)
    .map(([words, next]) => `    ${words.includes(' ') ? `"${words}"` : `"${words} "*`}) words="${next}" ;;`);
  return `# holdfast completion for bash: eval "$(holdfast completion bash)"
_holdfast() {
  local words="${topLevel(commands)
    .map(({ words }) => words)
    .join(' ')} --help --version"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "\${COMP_WORDS[1]} \${COMP_WORDS[2]}" in
${cases.join('\n')}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _holdfast holdfast
`;
}

/** zsh runs the same function by its emulation of bash. */
function zsh(commands: readonly Known[]): string {
  return `# holdfast completion for zsh: eval "$(holdfast completion zsh)"
autoload -Uz compinit bashcompinit && compinit && bashcompinit
${bash(commands).replace(/^#.*\n/, '')}`;
}

function fish(commands: readonly Known[]): string {
  const quoted = (text: string): string => `'${text.replaceAll("'", "\\'")}'`;
  const lines = topLevel(commands).map(
    ({ words, description }) => `complete -c holdfast -n __fish_use_subcommand -a ${words} -d ${quoted(description)}`,
  );
  for (const { words, description, flags } of commands) {
    const [first = '', second] = words.split(' ');
    if (second !== undefined)
      lines.push(
        `complete -c holdfast -n '__fish_seen_subcommand_from ${first}' -a ${second} -d ${quoted(description)}`,
      );
    else
      for (const { flag, description: what } of flags)
        lines.push(
          `complete -c holdfast -n '__fish_seen_subcommand_from ${first}' -l ${flag.slice(2)} -d ${quoted(what)}`,
        );
  }
  return `# holdfast completion for fish: holdfast completion fish | source\n${lines.join('\n')}\n`;
}
