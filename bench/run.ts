/**
 * `npm run bench [-- [--quick] [--write] [name …]]`: what Holdfast costs, beside what the plain SDK costs on the same
 * machine in the same minutes. Prints a table; a whole run is kept in bench/RESULTS.md.
 *
 * --quick   smaller everywhere: shows that the bench works, its figures say little
 * --write   keeps the results also of a quick or partial run
 */
import { parseArgs } from 'node:util';
import { acting } from './measures/acting.js';
import { fast } from './measures/fast.js';
import { gateway } from './measures/gateway.js';
import { growth } from './measures/growth.js';
import { replay } from './measures/replay.js';
import { startCall } from './measures/start.js';
import { streaming } from './measures/streaming.js';
import { suspended } from './measures/suspended.js';
import { throughput } from './measures/throughput.js';
import { isBusy, loadLine, machineLine, machineOf } from './report/machine.js';
import { textTable } from './report/table.js';
import { writeResults } from './report/write.js';
import { Bench } from './support/bench.js';
import type { Measure, Measured } from './support/measure.js';
import { FULL, QUICK } from './support/scale.js';

/** In this order: the last two stop the worker of this process. */
const MEASURES: readonly Measure[] = [
  throughput,
  startCall,
  acting,
  streaming,
  fast,
  gateway,
  growth,
  replay,
  suspended,
];

const say = (line: string): void => void process.stderr.write(`${line}\n`);

function chosen(names: readonly string[]): readonly Measure[] {
  const unknown = names.find((name) => !MEASURES.some((measure) => measure.name === name));
  if (unknown !== undefined) {
    say(`there is no measure ${unknown}; there are:`);
    for (const { name, about } of MEASURES) say(`  ${name.padEnd(12)}${about}`);
    process.exit(2);
  }
  return names.length === 0 ? MEASURES : MEASURES.filter((measure) => names.includes(measure.name));
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: 'boolean', default: false }, write: { type: 'boolean', default: false } },
});
const measures = chosen(positionals);
const { quick } = values;
const before = loadLine();
say(`load average: ${before}`);
if (isBusy()) say('The machine is busy with something else: trust the ratios a little and the times not at all.');
const from = performance.now();
const bench = await Bench.start(quick ? QUICK : FULL, say);
try {
  const machine = await machineOf(bench.temporal);
  say(machineLine(machine));
  const results: Measured[] = [];
  for (const measure of measures) {
    const began = performance.now();
    const measured = await measure.run(bench);
    say(`\n${measure.name}: ${measure.about} (${Math.round((performance.now() - began) / 1_000)} s)`);
    say(textTable(measured.rows));
    for (const note of measured.notes ?? []) say(note);
    results.push(measured);
  }
  const after = loadLine();
  const rows = results.flatMap((result) => result.rows);
  const seconds = (performance.now() - from) / 1_000;
  process.stdout.write(`\n${textTable(rows)}\n`);
  process.stdout.write(
    `\n${machineLine(machine)}\nload average before: ${before}; after: ${after}; ${Math.round(seconds)} s\n`,
  );
  if (values.write || (!quick && measures.length === MEASURES.length))
    await writeResults({ machine, load: [before, after], seconds, quick, results });
} finally {
  await bench.stop();
}
