/** Text of an agent, made fit for a terminal: it can neither move the cursor nor pass for a line of ours. */

/** Escape sequences as a whole, so that no `[31m` is left of them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the point
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])/g;
/** C0 and C1 but newline and tab, and what turns the direction of writing or cannot be seen. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the point
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\p{Default_Ignorable_Code_Point}]/gu;

/** The text with no control characters but newline and tab. */
export function plain(text: string): string {
  return text.replace(/\r\n?/g, '\n').replace(ESCAPES, '').replace(UNSEEN, '');
}

/** The text on one line, at most `most` characters of it. */
export function oneLine(text: string, most = 100): string {
  const line = plain(text).replace(/\s+/g, ' ').trim();
  const characters = [...line];
  return characters.length <= most ? line : `${characters.slice(0, most - 1).join('')}…`;
}

/** How wide a line may be; undefined where there is no terminal, or one that does not tell (it says 0). */
export function columnsOf(out: NodeJS.WriteStream): number | undefined {
  return out.isTTY && out.columns > 0 ? out.columns : undefined;
}

const BAR = '│ ';

/**
 * A line that may have a bar with an agent's words behind it, as lines of at most so many columns: what does not fit, or
 * begins a new line, stands behind the bar again. A terminal would go on at its left edge, where only our own words are.
 */
export function fold(line: string, columns = Number.POSITIVE_INFINITY): string[] {
  const [first = '', ...others] = line.split('\n');
  const begin = first.indexOf(BAR);
  if (begin < 0) return [first, ...others];
  const text = begin + BAR.length;
  const room = Math.max(8, columns - text);
  const [head = '', ...more] = [first.slice(text), ...others].flatMap((part) => pieces(part, room));
  return [first.slice(0, text) + head, ...more.map((piece) => `${' '.repeat(begin)}${BAR}${piece}`)];
}

function pieces(text: string, room: number): string[] {
  // Quick, and true for what no terminal makes wider.
  if (text.length <= room && /^[\u0020-\u007e]*$/.test(text)) return [text];
  const made: string[] = [];
  let piece = '';
  let taken = 0;
  for (const character of text) {
    const width = character === '\t' ? 8 : isNarrow(character) ? 1 : 2;
    if (taken + width > room) {
      made.push(piece);
      piece = '';
      taken = 0;
    }
    piece += character;
    taken += width;
  }
  return [...made, piece];
}

/** Latin and the like. Of all others, some are wide, and it does no harm to take all for wide. */
function isNarrow(character: string): boolean {
  return (character.codePointAt(0) ?? 0) < 0x1100;
}
