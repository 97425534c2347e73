/** What a promise was refused with. Anything but the portable error class fails the test that asks. */
import { HoldfastError } from '../../protocol/errors.js';

export async function refusal(promise: Promise<unknown>): Promise<HoldfastError> {
  let value: unknown;
  try {
    value = await promise;
  } catch (error) {
    if (error instanceof HoldfastError) return error;
    throw new Error(`refused with something else than a HoldfastError: ${String(error)}`, { cause: error });
  }
  throw new Error(`not refused, but: ${JSON.stringify(value)}`);
}

/** Only the code, and `none` when it was not refused: for tables. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  return await promise.then(
    () => 'none',
    async () => (await refusal(promise)).code,
  );
}
