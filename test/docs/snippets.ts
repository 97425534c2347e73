/** The documentation's TypeScript in a folder of its own, where `holdfast/*` is the sources: to compile, and to run. */
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { promisify } from 'node:util';
import { type Block, root, word } from './markdown.js';

const ENTRIES = {
  protocol: 'protocol',
  client: 'client',
  worker: 'worker',
  provider: 'providers',
  gateway: 'gateway',
  conformance: 'conformance',
  config: 'cli/config',
} as const;

/** Makes a project of `snippets`, lets `use` have it, and takes it away again. */
export async function withProject<T>(snippets: readonly Block[], use: (folder: string) => Promise<T>): Promise<T> {
  const cache = join(root, 'node_modules', '.cache');
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'holdfast-docs-'));
  try {
    const write = (name: string, content: unknown): void => writeFileSync(join(folder, name), JSON.stringify(content));
    const files = snippets.map((block) => {
      const name = nameOf(block);
      writeFileSync(join(folder, name), block.code);
      return name;
    });
    write('package.json', { type: 'module' });
    write('tsconfig.json', {
      extends: '../../../tsconfig.json',
      compilerOptions: {
        paths: Object.fromEntries(
          Object.entries(ENTRIES).map(([name, path]) => [`holdfast/${name}`, [`../../../${path}/index.ts`]]),
        ),
      },
      files,
    });
    // For Node, which knows no paths: a package of that name whose entries lead to the sources.
    const installed = join(folder, 'node_modules', 'holdfast');
    mkdirSync(installed, { recursive: true });
    symlinkSync(root, join(installed, 'sources'), 'dir');
    write('node_modules/holdfast/package.json', {
      name: 'holdfast',
      type: 'module',
      exports: Object.fromEntries(
        Object.entries(ENTRIES).map(([name, path]) => [`./${name}`, `./sources/${path}/index.ts`]),
      ),
    });
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The name that the block gives itself, else its page and line, so that an error says where it is. */
function nameOf(block: Block): string {
  return word(block, 'file') ?? `${block.page.replaceAll('/', '-')}-${block.line}.ts`;
}

/** What the compiler has to say against `snippets`, a line each; what it says against the sources is not for here. */
export async function compile(snippets: readonly Block[]): Promise<string[]> {
  return await withProject(snippets, async (folder) => {
    const tsc = join(root, 'node_modules', 'typescript', 'bin', 'tsc');
    const args = [tsc, '--noEmit', '--pretty', 'false', '-p', folder];
    const said = await promisify(execFile)(process.execPath, args, { cwd: root }).then(
      () => '',
      (error: { stdout?: string }) => error.stdout || String(error),
    );
    const lines = said.split('\n').filter((line) => line !== '' && !/^(\s|(?!node_modules)[\w./-]+\.ts\()/.test(line));
    return lines.map((line) => line.replace(`${relative(root, folder)}/`, ''));
  });
}
