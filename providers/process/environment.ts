/**
 * What a child process gets to see of our environment: nothing but what is listed. A worker's environment holds API
 * keys of the deployment, and whatever an agent has in its own, each of its tools can print (DESIGN §4).
 */
import { randomBytes } from 'node:crypto';

/**
 * Set in every child to a value of its own. Descendants inherit it, also those that made a session of their own, so
 * that they are found when it is time to end them.
 */
export const MARKER_VARIABLE = 'HOLDFAST_PROCESS';

/** 128 random bits: nothing else on the host carries it by accident or by guess. */
export function newMarker(): string {
  return randomBytes(16).toString('hex');
}

export interface EnvironmentOptions {
  /** Plain variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Names of variables that are handed on from our environment; those that are not set there are left out. */
  readonly passEnv?: readonly string[];
  /** Variables whose values never leave the child through us: they are redacted from all that is emitted. */
  readonly secretEnv?: Readonly<Record<string, string>>;
}

/** The whole environment of a child. Later wins: `passEnv`, `env`, `secretEnv`, the marker. */
export function childEnvironment(
  options: EnvironmentOptions,
  marker: string,
  ours: Readonly<Record<string, string | undefined>> = process.env,
): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const name of options.passEnv ?? []) {
    const value = ours[name];
    if (value !== undefined) passed[name] = value;
  }
  return { ...passed, ...options.env, ...options.secretEnv, [MARKER_VARIABLE]: marker };
}
