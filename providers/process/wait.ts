/** Waiting with a bound. No listener and no timer is left behind, so a long run can wait a million times. */

/** Resolves after `ms` milliseconds. */
export function delay(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

/** True when `work` settled (either way) within `ms` milliseconds. Never rejects. */
export function settledWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), ms);
    const settled = () => {
      clearTimeout(timer);
      resolve(true);
    };
    work.then(settled, settled);
  });
}

/** Asks `holds` every `everyMs` until it says yes (true) or `ms` milliseconds have passed (false). */
export async function until(holds: () => boolean, ms: number, everyMs: number): Promise<boolean> {
  const end = performance.now() + ms;
  for (;;) {
    if (holds()) return true;
    const left = end - performance.now();
    if (left <= 0) return false;
    await delay(Math.min(everyMs, left));
  }
}

/** What `work` comes to, or undefined as soon as `signal` aborts. A rejection after that is swallowed. */
export function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  return new Promise((resolve, reject) => {
    const onAbort = () => resolve(undefined);
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
    work.then(
      (value) => {
        signal.removeEventListener('abort', onAbort);
        resolve(value);
      },
      (error: unknown) => {
        signal.removeEventListener('abort', onAbort);
        reject(error);
      },
    );
  });
}
