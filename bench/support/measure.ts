/** What a measure gives: rows of the table, and what a plot or a note adds. */
import type { Bench } from './bench.js';
import type { Point } from './stats.js';

export interface Row {
  readonly measure: string;
  readonly holdfast: string;
  readonly beside: string;
  readonly ratio?: number | undefined;
  readonly goal: string;
  /** Undefined where there is no goal: the row only informs. */
  readonly met?: boolean | undefined;
}

export interface Series {
  readonly name: string;
  readonly points: readonly Point[];
}

export interface Plot {
  /** File name without its ending. */
  readonly file: string;
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly series: readonly Series[];
}

export interface Measured {
  readonly rows: readonly Row[];
  readonly plots?: readonly Plot[];
  readonly notes?: readonly string[];
}

export interface Measure {
  /** As it is named on the command line. */
  readonly name: string;
  readonly about: string;
  run(bench: Bench): Promise<Measured>;
}

/** A row whose goal bounds the ratio from above, or (`atLeast`) from below. */
export function ratioRow(
  row: Pick<Row, 'measure' | 'holdfast' | 'beside'> & { readonly ratio: number },
  goal: { readonly atMost: number } | { readonly atLeast: number },
): Row {
  return 'atMost' in goal
    ? { ...row, goal: `≤ ${goal.atMost} ×`, met: row.ratio <= goal.atMost }
    : { ...row, goal: `≥ ${goal.atLeast} ×`, met: row.ratio >= goal.atLeast };
}

export function ms(value: number): string {
  return `${value < 10 ? value.toFixed(1) : value.toFixed(0)} ms`;
}

export function perSecond(value: number): string {
  return `${value < 10 ? value.toFixed(1) : value.toFixed(0)} /s`;
}

export function mb(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(0)} MB`;
}
