/** Finds and reads the configuration file: JSON, or TypeScript and JavaScript whose default export it is. */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { z } from 'zod';
import { HoldfastError } from '../../protocol/errors.js';
import { type Config, configSchema } from './schema.js';

export const CONFIG_FILES = ['ts', 'mts', 'mjs', 'js', 'json'].map((ending) => `holdfast.config.${ending}`);

export interface ConfigFile {
  /** Absent when there is none. */
  readonly path?: string;
  readonly config: Config;
}

/**
 * The file that `--config` or HOLDFAST_CONFIG names, else the one in this folder; nothing configured when there is none.
 *
 * @throws HoldfastError `VALIDATION_ERROR` that names the file and the key
 */
export async function readConfig(
  named: string | undefined,
  env = process.env,
  folder = process.cwd(),
): Promise<ConfigFile> {
  const path = named ?? (env.HOLDFAST_CONFIG || undefined) ?? found(folder);
  return path === undefined ? { config: {} } : { path, config: parse(path, await contents(path)) };
}

function found(folder: string): string | undefined {
  const [first, second] = CONFIG_FILES.filter((name) => existsSync(join(folder, name)));
  if (first !== undefined && second !== undefined)
    throw new HoldfastError(
      'VALIDATION_ERROR',
      `there are ${first} and ${second}; remove one, or name one by --config`,
    );
  if (first === undefined) return undefined;
  return folder === process.cwd() ? first : join(folder, first);
}

async function contents(path: string): Promise<unknown> {
  if (!existsSync(path)) throw wrong(path, 'there is no such file; name the configuration by --config');
  return /\.[cm]?[jt]s$/.test(path) ? await evaluated(path) : await parsedJson(path);
}

async function evaluated(path: string): Promise<unknown> {
  const { createJiti } = await import('jiti');
  try {
    // Packages are loaded by Node itself, so that a provider made there is one of ours here.
    const jiti = createJiti(import.meta.url, { fsCache: false, interopDefault: true });
    return await jiti.import(resolve(path), { default: true });
  } catch (error) {
    throw new HoldfastError('VALIDATION_ERROR', `${path}: cannot be loaded: ${messageOf(error)}`, { cause: error });
  }
}

async function parsedJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, 'utf8'));
  } catch (error) {
    throw wrong(path, `is not JSON: ${messageOf(error)}`);
  }
}

function parse(path: string, value: unknown): Config {
  const parsed = configSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw wrong(path, parsed.error.issues.map(problem).join('; '));
}

function problem(issue: z.core.$ZodIssue): string {
  const key = issue.path.join('.');
  if (issue.code !== 'unrecognized_keys') return key === '' ? issue.message : `${key}: ${issue.message}`;
  return issue.keys.map((name) => `${key === '' ? name : `${key}.${name}`}: there is no such key`).join('; ');
}

export function wrong(path: string, what: string): HoldfastError {
  return new HoldfastError('VALIDATION_ERROR', `${path}: ${what}`);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
