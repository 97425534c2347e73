import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { dirname, join, normalize, relative, sep } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { VERSION } from '../protocol/version.js';

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const manifest = JSON.parse(readFileSync(`${ROOT}/package.json`, 'utf8')) as {
  readonly version: string;
  readonly bin: Readonly<Record<string, string>>;
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>;
  readonly dependencies: Readonly<Record<string, string>>;
};

/**
 * Who may import what. A folder of ours by its name, or one file of it; a package by its name. `zod` is the language of
 * the contract and free for all; Node's own modules are free but where code has to be pure. Temporal's `common` and
 * `proto` hold types that its client and its workflows share, so they go wherever one of these goes.
 */
const RULES: Readonly<Record<string, { readonly may: readonly string[]; readonly pure?: true }>> = {
  protocol: { may: ['@noble/hashes'], pure: true },
  workflows: { may: ['protocol', '@temporalio/workflow', '@temporalio/common'], pure: true },
  log: {
    may: [
      'protocol',
      'workflows/messages',
      // How a payload is decoded, so that the workflows and every reader see the same.
      'workflows/payload-converter',
      '@temporalio/client',
      '@temporalio/common',
      '@temporalio/proto',
    ],
  },
  activities: {
    may: [
      'protocol',
      'log',
      'workflows/messages',
      'providers/provider',
      '@temporalio/activity',
      '@temporalio/client',
      '@temporalio/common',
    ],
  },
  // Each provider brings the package of its harness; none of them knows Temporal.
  providers: { may: ['protocol', 'packages but Temporal’s'] },
  client: {
    may: [
      'protocol',
      'log',
      'workflows/messages',
      'workflows/payload-converter',
      '@temporalio/client',
      '@temporalio/common',
      '@temporalio/proto',
      'ajv',
    ],
  },
  worker: {
    may: [
      'protocol',
      'workflows',
      'log',
      'activities',
      'providers',
      'client',
      '@temporalio/worker',
      '@temporalio/client',
      '@temporalio/common',
    ],
  },
  gateway: { may: ['protocol', 'client', 'packages but Temporal’s'] },
  // It sees a provider and a deployment as their users do; a server of its own is for a provider that has none.
  conformance: { may: ['protocol', 'client', 'providers/provider', 'worker', 'dev/server'] },
  dev: { may: ['@temporalio/testing', '@temporalio/client', '@temporalio/common'] },
};

interface Import {
  readonly from: string;
  /** A file of ours without its ending, or a package's name; `node:…` for Node's own. */
  readonly of: string;
}

function sources(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !name.split(sep).includes('node_modules'))
    .map((name) => join(folder, name));
}

/** The text without comments; a `//` inside a text (a URL) begins none. */
function code(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8').replaceAll(/\/\*[\s\S]*?\*\/|(?<![:'"`\w])\/\/.*$/gm, '');
}

const IMPORT =
  /(?:^|[\n;])\s*(?:import|export)\b[^;'"]*?\bfrom\s*['"]([^'"]+)['"]|\bimport\s*\(?\s*['"]([^'"]+)['"]|\brequire\(['"]([^'"]+)['"]\)/g;

function imports(file: string): Import[] {
  return [...code(file).matchAll(IMPORT)].map((match) => {
    const name = match[1] ?? match[2] ?? match[3] ?? '';
    if (name.startsWith('.')) return { from: file, of: normalize(join(dirname(file), name)).replace(/\.[jt]s$/, '') };
    if (name.startsWith('node:') || builtinModules.includes(name))
      return { from: file, of: `node:${name.replace('node:', '')}` };
    return {
      from: file,
      of: name.startsWith('@') ? name.split('/').slice(0, 2).join('/') : (name.split('/')[0] ?? name),
    };
  });
}

function isAllowed(folder: string, { may, pure }: (typeof RULES)[string], { of }: Import): boolean {
  if (of.startsWith('node:')) return pure !== true;
  if (of === 'zod' || of.startsWith(`${folder}/`)) return true;
  const isOurs =
    Object.hasOwn(RULES, of.split('/')[0] ?? '') || /^(cli|test|bench|examples|scripts|docs|dist)\b/.test(of);
  if (!isOurs && may.includes('packages but Temporal’s')) return !of.startsWith('@temporalio/');
  return may.some((allowed) => of === allowed || (isOurs && of.startsWith(`${allowed}/`)));
}

const folders = Object.keys(RULES).filter((folder) => readdirSync(ROOT).includes(folder));

describe('what a folder may import', () => {
  it.each(folders)('is kept by %s/', (folder) => {
    const files = sources(folder);
    const all = files.flatMap(imports);
    // A pattern that finds nothing would find no breach either.
    expect(all.length).toBeGreaterThanOrEqual(files.length);
    const breaches = all.filter((each) => !isAllowed(folder, RULES[folder]!, each));
    expect(breaches.map(({ from, of }) => `${from} imports ${of}`)).toEqual([]);
  });

  it('is found out when it is broken', () => {
    const broken: [string, string][] = [
      ['protocol', '@temporalio/common'],
      ['protocol', 'node:crypto'],
      ['protocol', 'log/fold'],
      ['workflows', 'node:fs'],
      ['workflows', 'log/fold'],
      ['log', 'workflows/execution'],
      ['client', 'workflows/execution'],
      ['client', 'worker/worker'],
      ['client', 'cli/main'],
      ['activities', 'providers/scripted/provider'],
      ['providers', '@temporalio/activity'],
      ['providers', 'log/fold'],
      ['gateway', '@temporalio/client'],
      ['gateway', 'log/fold'],
      ['worker', 'gateway/server'],
      ['worker', 'cli/main'],
      ['dev', 'worker/worker'],
      ['conformance', 'log/fold'],
      ['conformance', 'vitest'],
      ['conformance', 'providers/scripted/provider'],
      ['log', 'test/support/cluster'],
    ];
    for (const [folder, of] of broken)
      expect([folder, of, isAllowed(folder, RULES[folder]!, { from: '', of })]).toEqual([folder, of, false]);
  });

  it('is known for every folder of sources', () => {
    const published = readdirSync(ROOT, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules')
      .map((entry) => entry.name)
      .filter((name) => !['cli', 'test', 'bench', 'docs', 'examples', 'scripts', 'dist'].includes(name))
      .filter((name) => sources(name).length > 0);
    expect(published.filter((name) => !Object.hasOwn(RULES, name))).toEqual([]);
  });

  it('holds in itself: no two files of a folder that is pure need each other', () => {
    const graph = new Map<string, string[]>();
    for (const folder of ['protocol', 'workflows', 'log'])
      for (const file of sources(folder))
        graph.set(
          file.replace(/\.ts$/, ''),
          imports(file).map(({ of }) => of),
        );
    const circles: string[] = [];
    const visit = (file: string, path: readonly string[]): void => {
      if (path.includes(file)) circles.push([...path.slice(path.indexOf(file)), file].join(' -> '));
      else for (const next of graph.get(file) ?? []) visit(next, [...path, file]);
    };
    for (const file of graph.keys()) visit(file, []);
    expect([...new Set(circles)]).toEqual([]);
  });
});

describe('the package', () => {
  it('is of the version that it says', () => {
    expect(VERSION).toBe(manifest.version);
  });

  it('depends on every package that it imports, and on none that it does not', () => {
    const imported = new Set(
      [...folders, 'cli']
        .filter((folder) => readdirSync(ROOT).includes(folder))
        .flatMap(sources)
        .flatMap(imports)
        .map(({ of }) => of)
        .filter((of) => !of.startsWith('node:') && !/^\w+\//.test(of)),
    );
    expect([...imported].sort()).toEqual(Object.keys(manifest.dependencies).sort());
  });

  it('has a source for each of its entries', () => {
    const entries = Object.values(manifest.exports).flatMap((entry) =>
      typeof entry === 'string' ? [] : Object.values(entry),
    );
    const built = [...entries, ...Object.values(manifest.bin)].filter((path) => path.includes('dist/'));
    expect(built.length).toBeGreaterThan(3);
    for (const path of built) {
      const source = path
        .replace('./', '')
        .replace('dist/', '')
        .replace(/(\.d)?\.[jt]s$/, '.ts');
      expect([path, readdirSync(join(ROOT, dirname(source)))]).toEqual([
        path,
        expect.arrayContaining([relative(dirname(source), source)]),
      ]);
    }
  });

  it('has no `any`, no default export and no `!`, and hides that nowhere but where it is said why', () => {
    const rules = ['suspicious/noExplicitAny', 'style/noDefaultExport', 'style/noNonNullAssertion'];
    const published = [...folders, 'cli', 'examples'].filter((folder) => readdirSync(ROOT).includes(folder));
    const args = ['lint', '--error-on-warnings', ...rules.map((rule) => `--only=${rule}`), ...published];
    const { status, stdout, stderr } = spawnSync(process.execPath, ['node_modules/@biomejs/biome/bin/biome', ...args], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    expect([status, status === 0 ? '' : stdout + stderr]).toEqual([0, '']);
    const silenced = published
      .flatMap(sources)
      .filter((file) =>
        rules.some((rule) => readFileSync(join(ROOT, file), 'utf8').includes(`biome-ignore lint/${rule}`)),
      );
    // A list of providers holds many different configuration types.
    expect(silenced).toEqual(['providers/provider.ts']);
  });
});
