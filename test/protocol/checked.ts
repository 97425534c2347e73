/** Property tests that can be run again: the seed is printed, and `HOLDFAST_SEED` sets it. */
import fc from 'fast-check';

export const SEED = Number(process.env.HOLDFAST_SEED ?? Math.floor(Math.random() * 2 ** 31));
console.info(`HOLDFAST_SEED=${SEED}`);

/** Holds `property` for `runs` random values, and reports the smallest that breaks it. */
export function checked<T>(values: fc.Arbitrary<T>, property: (value: T) => void, runs = 300): void {
  fc.assert(fc.property(values, property), { seed: SEED, numRuns: runs });
}
