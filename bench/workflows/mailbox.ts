import { condition, setDefaultSignalHandler } from '@temporalio/workflow';

/** Takes signals, does nothing with them, and ends with the signal `close`. */
export async function mailbox(): Promise<number> {
  let taken = 0;
  let closed = false;
  setDefaultSignalHandler((name) => {
    taken += 1;
    closed ||= name === 'close';
  });
  await condition(() => closed);
  return taken;
}
