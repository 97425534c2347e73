/** A gateway in a process of its own, whose memory is its own too. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const SCRIPT = fileURLToPath(new URL('./gateway-process.ts', import.meta.url));

export class GatewayProcess {
  private constructor(
    readonly child: ChildProcess,
    readonly url: string,
  ) {}

  /** `options`: the server's address, and what `serveGateway` takes as JSON. */
  static async start(options: { readonly address: string; readonly stallMs?: number }): Promise<GatewayProcess> {
    const child = spawn(process.execPath, ['--import', 'tsx', SCRIPT, JSON.stringify(options)], {
      stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    });
    const [line] = (await once(createInterface({ input: child.stdout! }), 'line')) as [string];
    return new GatewayProcess(child, (JSON.parse(line) as { url: string }).url);
  }

  /** Resident memory, in MiB. */
  get memory(): number {
    return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${this.child.pid}/status`, 'utf8'))?.[1]) / 1024;
  }

  /** Streams that are open there at this moment. */
  async streams(): Promise<number> {
    const answer = once(this.child, 'message');
    this.child.send('streams');
    return Number((await answer)[0]);
  }

  async kill(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.child.kill('SIGKILL');
    await once(this.child, 'exit');
  }
}
