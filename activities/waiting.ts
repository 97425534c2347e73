/** Waiting that ends early and keeps no process alive. */

/** Calls back when `signal` aborts; at once when it has. */
export function onAbort(signal: AbortSignal, callback: () => void): void {
  if (signal.aborted) callback();
  else signal.addEventListener('abort', callback, { once: true });
}

/** Sleeps `ms` or until `signal` aborts; does not keep the process alive. */
export function sleepOr(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    timer.unref();
    if (signal !== undefined) onAbort(signal, done);
  });
}
