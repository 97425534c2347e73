/**
 * A small server of the contract, not ours: one execution at a time is enough for it. What it holds outlives its
 * listener, which can be killed in the middle of a frame and started again at the same address.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

interface Event {
  readonly id: string;
  readonly sequence: number;
  readonly type: string;
  readonly data: object;
}

export interface Seen {
  readonly method: string;
  readonly path: string;
  readonly key: string | undefined;
  readonly authorization: string | undefined;
  readonly body: Record<string, unknown>;
}

type Interfere = (request: Seen, response: ServerResponse) => boolean;

export class SmallServer {
  readonly requests: Seen[] = [];
  readonly events: Event[] = [];
  capabilities: Record<string, string> = {
    'event.streaming': 'native',
    'event.replay': 'native',
    'execution.cancel': 'native',
    'action.approval': 'native',
    'action.input': 'native',
    'artifact.list': 'native',
  };
  pendingActions: object[] = [];
  /** Looks at each request first; true when it has answered by itself. */
  interfere: Interfere = () => false;
  /** How a frame is written: whole by default. */
  write: (response: ServerResponse, frame: string) => void = (response, frame) => void response.write(frame);
  private readonly keys = new Map<string, string>();
  private readonly streams = new Set<{ after: number; response: ServerResponse }>();
  private server: Server | undefined;
  private port = 0;

  static async start(): Promise<SmallServer> {
    const small = new SmallServer();
    await small.listen();
    return small;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Executions that were started, as opposed to found. */
  get executions(): number {
    return this.keys.size;
  }

  of(method: string, path: RegExp): Seen[] {
    return this.requests.filter((each) => each.method === method && path.test(each.path));
  }

  push(type: string, data: object = {}): number {
    const sequence = this.events.length + 1;
    this.events.push({ id: `x:${sequence}`, sequence, type, data });
    for (const stream of this.streams) this.send(stream.response, sequence);
    return sequence;
  }

  async listen(): Promise<void> {
    const server = createServer((request, response) => void this.handle(request, response));
    await new Promise<void>((resolve) => server.listen(this.port, '127.0.0.1', resolve));
    this.port = (server.address() as AddressInfo).port;
    this.server = server;
  }

  /** Ends it as a crash would: connections break where they are. */
  async kill(): Promise<void> {
    const { server } = this;
    for (const { response } of this.streams) response.socket?.resetAndDestroy();
    this.streams.clear();
    server?.closeAllConnections();
    await new Promise((resolve) => server?.close(resolve));
  }

  /** Breaks the open streams, in the middle of the frame of an event that is still to come. */
  cut(): void {
    for (const { response } of this.streams) {
      response.write(frame({ ...this.events.at(-1)!, sequence: this.events.length + 1 }).slice(0, 25));
      setImmediate(() => response.destroy());
    }
    this.streams.clear();
  }

  frames(from: number, to = this.events.length): string {
    return this.events
      .slice(from, to)
      .map((event) => frame(event))
      .join('');
  }

  private send(response: ServerResponse, sequence: number): void {
    this.write(response, frame(this.events[sequence - 1]!));
    if (/^run\.(completed|failed|cancelled)$/.test(this.events[sequence - 1]!.type)) response.end();
  }

  private async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = '';
    for await (const chunk of request) text += chunk;
    const { headers, method = '', url: path = '' } = request;
    const seen: Seen = {
      method,
      path,
      key: headers['idempotency-key'] as string | undefined,
      authorization: headers.authorization,
      body: text === '' ? {} : JSON.parse(text),
    };
    this.requests.push(seen);
    if (this.interfere(seen, response)) return;
    const json = (status: number, body: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(JSON.stringify(body));
    };
    if (path === '/v1/runtime') return json(200, { providers: [{ id: 'worker', capabilities: this.capabilities }] });
    if (path === '/v1/conversations') return json(201, { id: 'conv_there' });
    const execution = {
      id: 'exec_there',
      state: 'running',
      pendingActions: this.pendingActions,
      usage: { inputTokens: 7 },
    };
    if (method === 'POST' && path === '/v1/executions') {
      this.keys.set(seen.key ?? '', text);
      return json(202, execution);
    }
    const stream = /^\/v1\/executions\/exec_there\/events\?after=(\d+)$/.exec(path);
    if (stream === null) return json(200, execution);
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    response.write('retry: 10\n\n: hello\n\n');
    const opened = { after: Number(stream[1]), response };
    this.streams.add(opened);
    response.once('close', () => this.streams.delete(opened));
    for (let at = opened.after + 1; at <= this.events.length; at++) this.send(response, at);
  }
}

function frame(event: Event): string {
  return `id: ${event.sequence}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

/** An answer of an interfering server. */
export function answer(response: ServerResponse, status: number, body: object | string, headers = {}): true {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(typeof body === 'string' ? body : JSON.stringify(body));
  return true;
}
