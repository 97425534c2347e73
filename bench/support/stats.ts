/** The few figures that are taken of samples. */

/** The value below which the share `p` (0 to 1) of the samples lies. NaN without samples. */
export function percentile(samples: readonly number[], p: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] ?? Number.NaN;
}

export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = sorted.length >>> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** The median of the ratios of turns that were taken side by side: what a machine that is now slow, now fast leaves. */
export function pairedRatio(ours: readonly number[], beside: readonly number[]): number {
  return median(ours.map((value, i) => value / (beside[i] ?? Number.NaN)));
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

/** The slope through points, as the median of the slopes of all pairs (Theil–Sen): a few outliers do not turn it. */
export function slope(points: readonly Point[]): number {
  const slopes: number[] = [];
  for (const [i, a] of points.entries())
    for (const b of points.slice(i + 1)) if (b.x !== a.x) slopes.push((b.y - a.y) / (b.x - a.x));
  return median(slopes);
}

/** Lets the variants take turns, `rounds` times, and returns what each gave, by its name. */
export async function interleave<R extends Readonly<Record<string, unknown>>>(
  rounds: number,
  variants: { readonly [K in keyof R]: () => Promise<R[K]> },
): Promise<{ [K in keyof R]: R[K][] }> {
  const names = Object.keys(variants) as (keyof R)[];
  const results = Object.fromEntries(names.map((name) => [name, []])) as unknown as { [K in keyof R]: R[K][] };
  for (let round = 0; round < rounds; round++) for (const name of names) results[name].push(await variants[name]());
  return results;
}

/** Runs `work` for 0 … count − 1, `atOnce` at a time. `lane` says which of those it is. */
export async function inLanes(
  count: number,
  atOnce: number,
  work: (index: number, lane: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const lane = async (number: number): Promise<void> => {
    for (let index = next++; index < count; index = next++) await work(index, number);
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, count) }, (_, number) => lane(number)));
}

/** Milliseconds on a clock that all processes of this machine share, with fractions. */
export function now(): number {
  return performance.timeOrigin + performance.now();
}

/** How long `work` takes, in milliseconds. */
export async function timed(work: () => Promise<unknown>): Promise<number> {
  const from = now();
  await work();
  return now() - from;
}
