/** What stands on a command line, as what it means. What makes no sense is refused by commander, with exit code 2. */
import { readFile } from 'node:fs/promises';
import { text as all } from 'node:stream/consumers';
import { InvalidArgumentError } from 'commander';
import { HoldfastError } from '../protocol/errors.js';

export function wholeNumber(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < least || value > most)
      throw new InvalidArgumentError(
        `It is a whole number from ${least}${most === Number.MAX_SAFE_INTEGER ? ' on' : ` to ${most}`}.`,
      );
    return value;
  };
}

/** A moment: ISO 8601, or how long ago, such as `90s`, `15m`, `2h`, `7d`. */
export function moment(text: string): string {
  const ago = /^(\d+)([smhd])$/.exec(text);
  const unit = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }[ago?.[2] ?? ''];
  const at = unit === undefined ? Date.parse(text) : Date.now() - Number(ago?.[1]) * unit;
  if (Number.isNaN(at) || Math.abs(at) > 8.64e15)
    throw new InvalidArgumentError('It is a time (ISO 8601) or an age such as 15m, 2h, 7d.');
  return new Date(at).toISOString();
}

export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** JSON from the command line, or from a file that `@` names. @throws HoldfastError `VALIDATION_ERROR` naming the flag */
export async function jsonValue(flag: string, text: string): Promise<unknown> {
  const wrong = (why: string): HoldfastError => new HoldfastError('VALIDATION_ERROR', `${flag}: ${why}`);
  const source = !text.startsWith('@')
    ? text
    : await readFile(text.slice(1), 'utf8').catch((error: NodeJS.ErrnoException) => {
        throw wrong(`${text.slice(1)} cannot be read: ${error.code}`);
      });
  try {
    return JSON.parse(source);
  } catch (error) {
    throw wrong(`is not JSON: ${error instanceof Error ? error.message : String(error)}`);
  }
}

/** The text itself, or with `-` all of standard input. */
export async function textOrInput(text: string): Promise<string> {
  return text === '-' ? await all(process.stdin) : text;
}
