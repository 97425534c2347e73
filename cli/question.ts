/** Yes-or-no questions at the terminal. */
import { createInterface } from 'node:readline/promises';
import { plain } from './text.js';

/** Whether there is a person to ask: both ends are a terminal. */
export function hasTerminal(): boolean {
  return process.stdin.isTTY === true && process.stdout.isTTY === true;
}

export interface QuestionOptions {
  /** Takes the question back; the promise then rejects with the signal's reason. */
  readonly signal: AbortSignal;
  /** Ctrl-C: while the line is edited the terminal sends it as a key, and no signal comes. */
  readonly onInterrupt: () => void;
}

/** Asks until the answer is a yes or a no. The end of the input is a no. */
export async function confirm(question: string, { signal, onInterrupt }: QuestionOptions): Promise<boolean> {
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  terminal.on('SIGINT', onInterrupt);
  const ended = new Promise<'no'>((resolve) => terminal.once('close', () => resolve('no')));
  try {
    for (;;) {
      const asked = terminal.question(`${plain(question)} [y/n] `, { signal });
      const answer = (await Promise.race([asked, ended])).trim().toLowerCase();
      if (answer === 'y' || answer === 'yes') return true;
      if (answer === 'n' || answer === 'no') return false;
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    process.stdout.write('\n');
    throw signal.reason;
  } finally {
    terminal.close();
  }
}
