/** The last words of a process: kept in bounded memory, shown without anything that could steer a terminal. */

const ESC = String.fromCharCode(0x1b);
const BEL = String.fromCharCode(0x07);
/** Colours and cursor moves (CSI), titles and links (OSC, ended by BEL or ESC \), and two-character sequences. */
const ESCAPE_SEQUENCES = new RegExp(
  `${ESC}\\[[0-?]*[ -/]*[@-~]|${ESC}\\][^${BEL}${ESC}]*(?:${BEL}|${ESC}\\\\)?|${ESC}[ -/]*[0-~]`,
  'g',
);
const CONTROL_CHARACTERS = /(?![\n\t])\p{Cc}/gu;

/** `text` without escape sequences and control characters; line ends become `\n`. */
export function cleanText(text: string): string {
  return text
    .replace(ESCAPE_SEQUENCES, '')
    .replace(/\r\n?/g, '\n')
    .replace(CONTROL_CHARACTERS, '')
    .replace(/[ \t]+$/gm, '')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}

/** Keeps the last bytes of a stream. `push` copies what it keeps, so the stream's buffers are free again. */
export class StderrTail {
  readonly #limit: number;
  #kept: Buffer = Buffer.alloc(0);
  #cut = false;

  /** @param limit bytes that are kept, at most */
  constructor(limit = 64 * 1024) {
    this.#limit = limit;
  }

  push(chunk: Buffer): void {
    const all = Buffer.concat([this.#kept, chunk.subarray(Math.max(0, chunk.length - this.#limit))]);
    this.#cut ||= chunk.length > this.#limit || all.length > this.#limit;
    this.#kept = all.length > this.#limit ? Buffer.from(all.subarray(all.length - this.#limit)) : all;
  }

  /** What was kept, clean. Begins at a line's start when there was more before it. */
  text(): string {
    const text = this.#kept.toString('utf8');
    const firstLine = this.#cut ? text.indexOf('\n') : -1;
    return cleanText(text.slice(firstLine + 1));
  }
}
