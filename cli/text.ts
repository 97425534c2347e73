/** Text of an agent, made fit for a terminal: it can neither move the cursor nor pass for a line of ours. */

/** Escape sequences as a whole, so that no `[31m` is left of them. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the point
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])/g;
/** C0 and C1 but newline and tab, and what turns the direction of writing or cannot be seen. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the point
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

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
