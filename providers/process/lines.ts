/** Bytes to lines, in bounded memory: a peer that never ends its line must not take the worker with it. */

const NEWLINE = 0x0a;

/** A line grew over the limit; the rest of the stream cannot be told apart any more. */
export class LineTooLongError extends Error {
  override readonly name = 'LineTooLongError';
  readonly limit: number;

  constructor(limit: number) {
    super(`a line of more than ${limit} bytes (the limit for one message)`);
    this.limit = limit;
  }
}

/**
 * Splits at `\n`. A line's bytes are joined only when it is complete, so a UTF-8 sequence that came in two reads is
 * whole. Each byte is looked at once, however many reads a line takes.
 */
export class LineSplitter {
  readonly #limit: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  /** @param limit bytes of one line, at most */
  constructor(limit: number) {
    this.#limit = limit;
  }

  /** The lines that `chunk` completes, without their `\n`. Throws {@link LineTooLongError}. */
  *push(chunk: Buffer): Generator<Buffer> {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      this.#keep(chunk.subarray(start, end));
      start = end + 1;
      yield this.#take();
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
  }

  /** What came after the last `\n`, when the stream has ended. */
  end(): Buffer | undefined {
    return this.#bytes === 0 ? undefined : this.#take();
  }

  #keep(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#limit) {
      this.#pieces = [];
      this.#bytes = 0;
      throw new LineTooLongError(this.#limit);
    }
    this.#pieces.push(piece);
  }

  #take(): Buffer {
    const [first] = this.#pieces;
    const line = this.#pieces.length === 1 && first !== undefined ? first : Buffer.concat(this.#pieces, this.#bytes);
    this.#pieces = [];
    this.#bytes = 0;
    return line;
  }
}
