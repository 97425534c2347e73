/**
 * A request's body as JSON that can be kept exactly. Bounded while it is read; whatever a parser would alter in silence
 * is refused by name before any schema sees it.
 */
import { IncomingMessage } from 'node:http';
import { HoldfastError } from '../protocol/errors.js';
import { jsonProblem } from '../protocol/json.js';
import type { GatewayContext } from './context.js';
import { Refusal } from './problem.js';

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json$/;

/**
 * The body, `{}` when there is none: POST without a body, with an empty one and with `{}` are alike.
 *
 * @throws Refusal `PAYLOAD_TOO_LARGE`, `UNSUPPORTED_MEDIA_TYPE`; HoldfastError `VALIDATION_ERROR`
 */
export async function readJson(c: GatewayContext, maxBytes: number): Promise<unknown> {
  const declared = Number(c.req.header('content-length') ?? 0);
  if (declared > maxBytes) throw tooLarge(maxBytes);
  const incoming = c.env?.incoming;
  // With a server beneath, its own stream: a web stream over it costs more than all the rest of a small request.
  const bytes = await (isPlain(incoming) ? readNode(incoming, maxBytes) : readWeb(c.req.raw.body, maxBytes));
  if (bytes.length === 0) return {};
  checkMediaType(c.req.raw.headers);
  const text = decode(bytes);
  if (text.trim() === '') return {};
  const value = parse(text);
  const problem = memberProblem(value);
  if (problem !== undefined) throw new HoldfastError('VALIDATION_ERROR', `the body: ${problem}`);
  return value;
}

/** HTTP/1 that nobody has read yet, as `serveGateway` has it; a server of somebody else's may have another. */
function isPlain(incoming: unknown): incoming is IncomingMessage {
  return incoming instanceof IncomingMessage && !incoming.readableDidRead && !('rawBody' in incoming);
}

/** What is left of a body that is too large is read by the server and dropped, so that the answer gets through. */
function readNode(incoming: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const settle = (settled: () => void) => (): void => {
      incoming.off('data', onData).off('end', onEnd).off('error', onCut).off('close', onCut);
      settled();
    };
    const onData = (chunk: Buffer): void => {
      size += chunk.length;
      if (size > maxBytes) settle(() => reject(tooLarge(maxBytes)))();
      else chunks.push(chunk);
    };
    const onEnd = settle(() => resolve(Buffer.concat(chunks)));
    const onCut = settle(() => reject(cutShort()));
    if (incoming.destroyed) reject(cutShort());
    else incoming.on('data', onData).on('end', onEnd).on('error', onCut).on('close', onCut);
  });
}

async function readWeb(body: ReadableStream<Uint8Array> | null, maxBytes: number): Promise<Uint8Array> {
  if (body === null) return new Uint8Array();
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      size += chunk.length;
      if (size > maxBytes) throw tooLarge(maxBytes);
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof Refusal) throw error;
    throw cutShort(error);
  }
  return Buffer.concat(chunks);
}

function cutShort(cause?: unknown): HoldfastError {
  return new HoldfastError('VALIDATION_ERROR', 'the body ended too early', { cause });
}

function tooLarge(maxBytes: number): Refusal {
  return new Refusal('PAYLOAD_TOO_LARGE', `the body takes more than ${maxBytes} bytes`);
}

/** Also what keeps web pages out: a form or a script of another site can send text, but no JSON without asking. */
function checkMediaType(headers: Headers): void {
  const [type = '', ...parameters] = (headers.get('content-type') ?? '').toLowerCase().split(';');
  const refuse = (what: string): Refusal => new Refusal('UNSUPPORTED_MEDIA_TYPE', what);
  if (!JSON_TYPE.test(type.trim())) throw refuse('send JSON, with "Content-Type: application/json"');
  for (const parameter of parameters) {
    const [name = '', value = ''] = parameter.split('=').map((part) => part.trim());
    if (name === 'charset' && !/^"?utf-?8"?$/.test(value)) throw refuse('send JSON in UTF-8');
  }
  const encoding = headers.get('content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding !== '' && encoding !== 'identity') throw refuse('send the body without a Content-Encoding');
}

/** A byte order mark is fine and dropped. */
function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new HoldfastError('VALIDATION_ERROR', 'the body is not UTF-8', { cause: error });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    // The parser's own message quotes the body, which may be private.
    const position = error instanceof Error ? /position \d+/.exec(error.message)?.[0] : undefined;
    const where = position === undefined ? '' : ` (at ${position})`;
    throw new HoldfastError('VALIDATION_ERROR', `the body is not JSON${where}`, { cause: error });
  }
}

/** What is wrong with it as JSON. Depth counts from its members, as it does for one who calls without HTTP. */
function memberProblem(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return jsonProblem(value);
  if (Object.hasOwn(value, '__proto__')) return 'the key "__proto__" is not taken';
  for (const [key, member] of Object.entries(value)) {
    const problem = jsonProblem(member, key);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
