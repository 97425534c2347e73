import { defineConfig } from 'vitest/config';

/**
 * Three suites: `main` needs npm (and pip) only; `agents` drives real third-party agents; `faults` are the long runs
 * that kill things. Each test file may have a server of its own, so two files at once are what two cores carry.
 */
const shared = {
  environment: 'node',
  globalSetup: 'test/support/global-setup.ts',
  testTimeout: 60_000,
  hookTimeout: 60_000,
} as const;

/** Run a few times every day, and often with the faults (test/support/scale.ts). */
const OFTEN = ['responses', 'invariants', 'cancels', 'slots'].map((name) => `test/races/${name}.test.ts`);

export default defineConfig({
  test: {
    maxWorkers: 2,
    projects: [
      {
        test: {
          ...shared,
          name: 'main',
          include: ['test/**/*.test.ts'],
          exclude: ['test/agents/**', 'test/faults/**'],
        },
      },
      { test: { ...shared, name: 'agents', include: ['test/agents/**/*.test.ts'], testTimeout: 120_000 } },
      {
        test: {
          ...shared,
          name: 'faults',
          include: ['test/faults/**/*.test.ts', ...OFTEN],
          testTimeout: 600_000,
          env: {
            HOLDFAST_RACES: process.env.HOLDFAST_RACES ?? '200',
            HOLDFAST_LIVES: process.env.HOLDFAST_LIVES ?? '60',
            HOLDFAST_CANCELS: process.env.HOLDFAST_CANCELS ?? '150',
            HOLDFAST_QUEUED: process.env.HOLDFAST_QUEUED ?? '60',
          },
        },
      },
    ],
  },
});
