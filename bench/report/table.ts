/** The table of results, as text for a terminal and as Markdown. */
import type { Row } from '../support/measure.js';

const HEADINGS = ['measure', 'Holdfast', 'beside it', 'ratio', 'goal', ''] as const;

export function verdict(row: Row): string {
  if (row.met === undefined) return '';
  return row.met ? 'met' : 'MISSED';
}

function cells(row: Row): string[] {
  const ratio = row.ratio === undefined ? '' : row.ratio.toFixed(2);
  return [row.measure, row.holdfast, row.beside, ratio, row.goal, verdict(row)];
}

export function textTable(rows: readonly Row[]): string {
  const lines = [[...HEADINGS], ...rows.map(cells)];
  const widths = HEADINGS.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  return lines
    .map((line) =>
      line
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function markdownTable(rows: readonly Row[]): string {
  const line = (texts: readonly string[]): string =>
    `| ${texts.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(HEADINGS), line(HEADINGS.map(() => '---')), ...rows.map((row) => line(cells(row)))].join('\n');
}
