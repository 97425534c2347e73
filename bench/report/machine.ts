/** The machine that figures come from; never its name. */
import { createRequire } from 'node:module';
import { cpus, loadavg, totalmem } from 'node:os';
import type { Client } from '@temporalio/client';

export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly node: string;
  readonly server: string;
  readonly sdk: string;
  /** ISO 8601, the day alone. */
  readonly date: string;
}

export async function machineOf(client: Client): Promise<Machine> {
  const { serverVersion } = await client.workflowService.getSystemInfo({});
  const { version } = createRequire(import.meta.url)('@temporalio/client/package.json') as { version: string };
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    node: process.version.slice(1),
    server: serverVersion ?? 'unknown',
    sdk: version,
    date: new Date().toISOString().slice(0, 10),
  };
}

export function machineLine(machine: Machine): string {
  const { cpu, cores, memoryGiB, node, server, sdk, date } = machine;
  return `${cpu}, ${cores} cores, ${memoryGiB} GiB; Node ${node}, Temporal dev server ${server}, SDK ${sdk}; ${date}`;
}

/** The load averages of one and five minutes, per core where that says more than the sum. */
export function loadLine(): string {
  const [one = 0, five = 0] = loadavg();
  return `${one.toFixed(2)} (1 min), ${five.toFixed(2)} (5 min) on ${cpus().length} cores`;
}

/** Whether something else kept the machine busy before the bench began. */
export function isBusy(): boolean {
  return (loadavg()[0] ?? 0) > cpus().length / 4;
}
