/** Where a command says things: for people, or with `--json` one JSON value a line on standard output, whole. */
import { columnsOf, fold, plain } from './text.js';

/** Control characters that JSON leaves as they are, and a terminal may not: written out, so that no data is lost. */
const UNSAFE = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export class Output {
  constructor(readonly json: boolean) {}

  /** A line for people, on standard output; with `--json` nothing. What an agent said, behind a bar, never leaves it. */
  say(line: string): void {
    if (this.json) return;
    for (const each of fold(plain(line), columnsOf(process.stdout))) write(process.stdout, each);
  }

  /** The same fact twice: as a record for programs, or as lines for people. */
  tell(record: unknown, ...lines: readonly string[]): void {
    if (this.json) this.record(record);
    else for (const line of lines) this.say(line);
  }

  /** With `--json` a line of JSON; else nothing. */
  record(value: unknown): void {
    if (!this.json) return;
    const text = JSON.stringify(value).replace(
      UNSAFE,
      (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
    write(process.stdout, text);
  }

  /** What goes on, on standard error, so that it mixes with no result. */
  note(line: string): void {
    write(process.stderr, plain(line));
  }
}

function write(stream: NodeJS.WriteStream, line: string): void {
  if (stream.writable) stream.write(`${line}\n`);
}

/** Columns of equal width, two spaces apart; the last is left as long as it is. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows)
    for (const [column, cell] of row.entries()) widths[column] = Math.max(widths[column] ?? 0, [...cell].length);
  return rows.map((row) =>
    row
      .map(
        (cell, column) => cell + ' '.repeat(column === row.length - 1 ? 0 : (widths[column] ?? 0) - [...cell].length),
      )
      .join('  ')
      .trimEnd(),
  );
}

/** How long ago, in the largest unit that says something. */
export function age(iso: string, now = Date.now()): string {
  const seconds = Math.max(0, Math.round((now - Date.parse(iso)) / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 2 * 86_400) return `${Math.floor(seconds / 3_600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}
