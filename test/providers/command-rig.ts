/** Commands made of a few lines of JavaScript. Each run's processes carry a word in their environment. */
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { type CommandOptions, commandProvider } from '../../providers/command/command.js';
import { processesWith } from '../support/processes.js';

/** For scripts: `say(object)` writes a line, `input()` resolves with all of standard input, `lines()` yields it by line. */
const PRELUDE = `
const say = (value) => process.stdout.write(JSON.stringify(value) + '\\n');
const input = async () => { let all = ''; for await (const piece of process.stdin.setEncoding('utf8')) all += piece; return all; };
const lines = () => require('node:readline').createInterface({ input: process.stdin });
`;

export interface ScriptOptions extends Partial<Omit<CommandOptions, 'commands'>> {
  readonly command?: Partial<CommandOptions['commands'][string]>;
}

export function script(body: string, { command, ...options }: ScriptOptions = {}) {
  const word = randomBytes(8).toString('hex');
  const provider = commandProvider({
    ...options,
    commands: {
      it: {
        command: process.execPath,
        args: ['-e', `${PRELUDE}(async () => { ${body} })();`],
        cwd: tmpdir(),
        output: 'ndjson',
        ...command,
        env: { HOLDFAST_TEST_WORD: word, ...command?.env },
      },
    },
  });
  return { provider, left: () => processesWith(word) };
}
