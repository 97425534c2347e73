/** What came of a run of the kit. */
export type Outcome = 'passed' | 'failed' | 'skipped';

export interface CheckResult {
  readonly name: string;
  readonly outcome: Outcome;
  /** Of a failure, which promise was broken and how; of a skip, why. */
  readonly detail: string;
}

export interface ConformanceReport {
  readonly providerId: string;
  /** No check failed. */
  readonly passed: boolean;
  readonly checks: readonly CheckResult[];
}

const MARKS: Readonly<Record<Outcome, string>> = { passed: '✓', failed: '✗', skipped: '-' };

/** The report as text: a line for each check, and one for all. */
export function formatReport({ providerId, checks }: ConformanceReport): string {
  const width = Math.max(0, ...checks.map(({ name }) => name.length));
  const lines = checks.map(({ name, outcome, detail }) =>
    `${MARKS[outcome]} ${name.padEnd(width)}  ${printable(detail)}`.trimEnd(),
  );
  const count = (outcome: Outcome): number => checks.filter((check) => check.outcome === outcome).length;
  const counts = `${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`;
  return [`Conformance of provider ${providerId}`, ...lines, counts, ''].join('\n');
}

/** One line, without control characters: a detail may hold what a provider said. */
function printable(detail: string): string {
  return detail.replace(/[\s\p{Cc}]+/gu, ' ').slice(0, 500);
}
