/** What a command prints for people: headings and short paragraphs, on standard output. */
import { styleText } from 'node:util';
import { columnsOf, fold, plain } from './text.js';

const WIDTH = 100;
const INDENT = '   ';

export class Screen {
  constructor(private readonly out: NodeJS.WriteStream = process.stdout) {}

  /** A title, with an empty line before it. */
  heading(text: string): void {
    this.write(`\n${this.styled('bold', plain(text))}\n`);
  }

  /** A paragraph, wrapped and indented. Words are never split: an address can be copied whole. */
  say(text: string): void {
    for (const line of wrap(plain(text), WIDTH - INDENT.length)) this.write(`${INDENT}${line}`.trimEnd().concat('\n'));
  }

  /** A line as it is, indented, in a quieter colour where there are colours. */
  quiet(line: string): void {
    this.write(`${INDENT}${this.styled('dim', plain(line))}\n`);
  }

  /** A line as it is, indented; what an agent said, behind a bar, never leaves it. */
  line(line: string): void {
    const columns = columnsOf(this.out);
    for (const each of fold(plain(line), columns === undefined ? undefined : columns - INDENT.length))
      this.write(`${INDENT}${each}\n`);
  }

  /** A line that must not be missed. */
  loud(line: string): void {
    this.write(`${INDENT}${this.styled('red', plain(line))}\n`);
  }

  private styled(style: 'bold' | 'dim' | 'red', text: string): string {
    // Whether there are colours is for the terminal, `NO_COLOR` and `TERM` to say, which this reads.
    return styleText(style, text, { stream: this.out });
  }

  private write(text: string): void {
    if (this.out.writable) this.out.write(text);
  }
}

function wrap(text: string, width: number): string[] {
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = [];
    let line = '';
    for (const word of paragraph.split(' ')) {
      if (line !== '' && line.length + 1 + word.length > width) {
        lines.push(line);
        line = word;
      } else line = line === '' ? word : `${line} ${word}`;
    }
    return [...lines, line];
  });
}
