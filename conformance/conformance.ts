/**
 * Checks that a provider keeps the contract: manifest, lifecycle, the nine invariants, cancellation in every state,
 * actions, artifacts and continuity, as far as its manifest claims them. It needs no test framework.
 *
 * @example
 * const report = await checkConformance({
 *   provider: scriptedProvider(),
 *   scenarios: { text: { input: 'hello' }, hang: { config: { steps: [{ hang: true }] } } },
 * });
 * console.log(formatReport(report));
 */
import type { AnyProvider } from '../providers/provider.js';
import { actionChecks } from './checks/actions.js';
import { cancelChecks } from './checks/cancel.js';
import { continuityChecks } from './checks/continuity.js';
import { lifecycleChecks } from './checks/lifecycle.js';
import { logChecks } from './checks/log.js';
import { manifestChecks } from './checks/manifest.js';
import { requestChecks } from './checks/requests.js';
import { type Check, type ConformanceClient, Kit, type KitOptions, Skipped, Violation } from './kit.js';
import type { CheckResult, ConformanceReport } from './report.js';
import type { Scenarios } from './scenarios.js';
import { openStage } from './stage.js';

interface CommonOptions {
  readonly scenarios: Scenarios;
  /** Names of checks, or what stands before their first dot. Default: all. */
  readonly only?: readonly string[];
  /** How long one wait of a check may take, in milliseconds. Default 30,000. */
  readonly timeoutMs?: number;
  /** Called after each check. */
  readonly onCheck?: (result: CheckResult) => void;
}

/** A provider at hand: it gets a worker, and a dev server unless an address is given. */
export interface ProviderOptions extends CommonOptions {
  readonly provider: AnyProvider;
  /** Host and port of a Temporal frontend that no other worker with this provider polls. */
  readonly address?: string;
  readonly namespace?: string;
  /** How long the provider may take to stop, in milliseconds. Default 15,000. */
  readonly stopGraceMs?: number;
}

/** A deployment that runs. */
export interface ClientOptions extends CommonOptions {
  readonly client: ConformanceClient;
  readonly providerId: string;
  /** How many executions of this provider live at once there, if nobody else uses it. Else `cancel.queued` may be skipped. */
  readonly slots?: number;
}

export type ConformanceOptions = ProviderOptions | ClientOptions;

const DEFAULT_TIMEOUT_MS = 30_000;
/** As few as let one hang while another runs; so that a third one waits. */
const SLOTS = 2;

/** The log is looked at last, when there are many. */
const CHECKS: readonly Check[] = [
  ...manifestChecks,
  ...lifecycleChecks,
  ...requestChecks,
  ...cancelChecks,
  ...actionChecks,
  ...continuityChecks,
  ...logChecks,
];

/** The names of all checks, in the order in which they run. */
export const CHECK_NAMES: readonly string[] = CHECKS.map(({ name }) => name);

/**
 * Runs the checks one after the other and reports each by name. It rejects only when it cannot run at all: without a
 * server, with a manifest that no worker takes, or with a name in `only` that is no check.
 */
export async function checkConformance(options: ConformanceOptions): Promise<ConformanceReport> {
  const checks = chosen(options.only);
  const { scenarios, timeoutMs = DEFAULT_TIMEOUT_MS, onCheck } = options;
  if ('client' in options) {
    const { client, providerId, slots } = options;
    const kit = { client, providerId, scenarios, timeoutMs, ...(slots === undefined ? {} : { slots }) };
    return await report(checks, kit, onCheck);
  }
  const { provider } = options;
  const stage = await openStage({ ...options, slots: SLOTS });
  try {
    const { client, cleanups } = stage;
    const { manifest } = provider;
    const kit = { client, providerId: manifest.id, own: manifest, scenarios, timeoutMs, slots: SLOTS, cleanups };
    return await report(checks, kit, onCheck);
  } finally {
    await stage.close();
  }
}

function chosen(only: readonly string[] | undefined): readonly Check[] {
  if (only === undefined) return CHECKS;
  const fits = (name: string, wanted: string): boolean => name === wanted || name.split('.')[0] === wanted;
  for (const wanted of only)
    if (!CHECKS.some(({ name }) => fits(name, wanted)))
      throw new Error(`there is no check ${JSON.stringify(wanted)}; there are: ${CHECK_NAMES.join(', ')}`);
  return CHECKS.filter(({ name }) => only.some((wanted) => fits(name, wanted)));
}

async function report(
  checks: readonly Check[],
  options: KitOptions,
  onCheck: ((result: CheckResult) => void) | undefined,
): Promise<ConformanceReport> {
  const kit = new Kit(options);
  const results: CheckResult[] = [];
  try {
    for (const check of checks) {
      const result = { name: check.name, ...(await outcomeOf(check, kit)) };
      results.push(result);
      onCheck?.(result);
    }
  } finally {
    await kit.cleanUp();
  }
  return {
    providerId: options.providerId,
    passed: results.every(({ outcome }) => outcome !== 'failed'),
    checks: results,
  };
}

async function outcomeOf(check: Check, kit: Kit): Promise<Omit<CheckResult, 'name'>> {
  try {
    return { outcome: 'passed', detail: (await check.run(kit)) ?? '' };
  } catch (error) {
    if (error instanceof Skipped) return { outcome: 'skipped', detail: error.message };
    // What a call rejected with unexpectedly is a failure like any other.
    return { outcome: 'failed', detail: error instanceof Violation ? error.message : String(error) };
  }
}
