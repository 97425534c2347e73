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
  readonly passEnv?: readonly string[] | undefined;
  /** Variables whose values never leave the child through us: they are redacted from all that is emitted. */
  readonly secretEnv?: Readonly<Record<string, string>> | undefined;
}

/** What is called like this holds a secret. */
const SECRET_NAME = /(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?(?:_|$)/i;
/** Of a handed-on variable; a shorter value would be found all over an honest text. */
const MIN_PASSED_SECRET = 8;

/** The values to redact: of all `secretEnv`, and of those in `passEnv` whose names say that they are secret. */
export function secretValues(
  { passEnv = [], secretEnv = {} }: Pick<EnvironmentOptions, 'passEnv' | 'secretEnv'>,
  ours: Readonly<Record<string, string | undefined>> = process.env,
): string[] {
  const passed = passEnv.filter((name) => SECRET_NAME.test(name)).map((name) => ours[name] ?? '');
  return [...Object.values(secretEnv), ...passed.filter((value) => value.length >= MIN_PASSED_SECRET)];
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
