/** Keeps a whole run: `bench/RESULTS.md` and its plots. */
import { mkdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { Measured, Plot } from '../support/measure.js';
import { type Machine, machineLine } from './machine.js';
import { svg } from './svg.js';
import { markdownTable } from './table.js';

const FOLDER = fileURLToPath(new URL('../', import.meta.url));

export interface Run {
  readonly machine: Machine;
  /** The load before and after. */
  readonly load: readonly [before: string, after: string];
  readonly seconds: number;
  readonly quick: boolean;
  readonly results: readonly Measured[];
}

export async function writeResults(run: Run): Promise<void> {
  const plots = run.results.flatMap((result) => result.plots ?? []);
  await mkdir(`${FOLDER}plots`, { recursive: true });
  for (const plot of plots) await writeFile(`${FOLDER}plots/${plot.file}.svg`, svg(plot));
  await writeFile(`${FOLDER}RESULTS.md`, markdown(run, plots));
}

function markdown({ machine, load, seconds, quick, results }: Run, plots: readonly Plot[]): string {
  const notes = results.flatMap((result) => result.notes ?? []);
  const rows = results.flatMap((result) => result.rows);
  const missed = rows.filter((row) => row.met === false).length;
  return [
    '# Results of the bench',
    '',
    `Written by \`npm run bench\`${quick ? ' with `--quick`: it shows that the bench works, and the figures say little' : ''}. Variants of a measure took turns within this one run; figures are medians, ratios are what to trust.`,
    '',
    `- Machine: ${machineLine(machine)}`,
    `- Load average before: ${load[0]}; after: ${load[1]}`,
    `- The run took ${Math.round(seconds)} s. Goals: ${missed === 0 ? 'all met' : `${missed} MISSED`}.`,
    '',
    markdownTable(rows),
    '',
    ...(notes.length === 0 ? [] : [...notes.map((note) => `- ${note}`), '']),
    ...plots.flatMap((plot) => [`![${plot.title}](plots/${plot.file}.svg)`, '']),
  ].join('\n');
}
