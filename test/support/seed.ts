/** Chance that can be had again: the seed is printed, and set with HOLDFAST_SEED. */

export interface Chance {
  readonly seed: number;
  /** From 0 up to, not including, `below`. */
  whole(below: number): number;
  oneOf<T>(choices: readonly T[]): T;
  shuffled<T>(items: readonly T[]): T[];
}

export function chance(what: string): Chance {
  const given = Number(process.env.HOLDFAST_SEED ?? '');
  const seed = Number.isInteger(given) && given > 0 ? given : 1 + Math.floor(Math.random() * 2 ** 31);
  console.log(`${what}: HOLDFAST_SEED=${seed}`);
  let state = seed >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const whole = (below: number): number => Math.floor(next() * below);
  return {
    seed,
    whole,
    oneOf: (choices) => choices[whole(choices.length)]!,
    shuffled: (items) => {
      const left = [...items];
      const drawn: typeof left = [];
      while (left.length > 0) drawn.push(...left.splice(whole(left.length), 1));
      return drawn;
    },
  };
}
