/** How a child process ended, in data and in words. */

export type ProcessExit =
  | { readonly kind: 'code'; readonly code: number }
  | { readonly kind: 'signal'; readonly signal: string }
  | { readonly kind: 'not_started'; readonly error: Error & { code?: string } };

/** As the end of a sentence: `exited with code 7`, `was killed by SIGKILL`, `could not be started: ENOENT (…)`. */
export function describeExit(exit: ProcessExit): string {
  switch (exit.kind) {
    case 'code':
      return `exited with code ${exit.code}`;
    case 'signal':
      return `was killed by ${exit.signal}`;
    case 'not_started':
      return exit.error.code === undefined
        ? `could not be started: ${exit.error.message}`
        : `could not be started: ${exit.error.code} (${exit.error.message})`;
    default:
      return exit satisfies never;
  }
}
