#!/usr/bin/env node
/** The command `holdfast`. */
import { report } from './failure.js';
import { createProgram } from './program.js';

try {
  await createProgram((code) => {
    if (code !== undefined) process.exitCode = code;
  }).parseAsync();
} catch (error) {
  process.exitCode = report(error, process.argv.includes('--json'));
}
