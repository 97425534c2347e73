/** The documentation as the tests see it: its files, fenced blocks, tables, headings and links. */
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

/** Every page, by its path from the root. */
export const pages: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  'CHANGELOG.md',
  ...readdirSync(`${root}/docs`, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`)
    .sort(),
];

export function text(page: string): string {
  return readFileSync(`${root}/${page}`, 'utf8');
}

export interface Block {
  readonly page: string;
  readonly line: number;
  readonly language: string;
  /** What stands after the language: `run`, `file=worker.ts`, `run=answer`. */
  readonly words: readonly string[];
  readonly code: string;
}

const FENCE = /^(`{3,})([^\n`]*)\n([\s\S]*?)^\1[ \t]*$/gm;

/** The fenced blocks of all pages. */
export function blocks(): Block[] {
  return pages.flatMap((page) =>
    [...text(page).matchAll(FENCE)].map((match) => {
      const [language = '', ...words] = (match[2] ?? '').trim().split(/\s+/);
      return { page, line: text(page).slice(0, match.index).split('\n').length, language, words, code: match[3] ?? '' };
    }),
  );
}

/** `name` of a block that says `name=value`. */
export function word(block: Block, name: string): string | undefined {
  return block.words.find((each) => each.startsWith(`${name}=`))?.slice(name.length + 1);
}

/** A page without its fenced blocks. */
export function prose(page: string): string {
  return text(page).replace(FENCE, '');
}

/** The rows, without the header, of the table whose first column is headed `heading`; cells without back quotes. */
export function table(page: string, heading: string): string[][] {
  const rows: string[][] = [];
  let inside = false;
  for (const line of prose(page).split('\n')) {
    const cells = line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim());
    if (cells.length === 0) inside = false;
    else if (cells[0] === heading) inside = true;
    else if (inside && !/^-+$/.test(cells[0] ?? '')) rows.push(cells.map((cell) => cell.replaceAll('`', '')));
  }
  return rows;
}

/** The anchors that GitHub makes of a page's headings. */
export function anchors(page: string): string[] {
  return [...prose(page).matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

/** Targets of the links of a page. */
export function links(page: string): string[] {
  return [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target);
}
