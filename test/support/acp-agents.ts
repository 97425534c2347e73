/** The fixture agents as providers. Each gets a word in its environment by which everything it started is found. */
import { randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';
import { type AcpOptions, acpProvider } from '../../providers/acp/acp.js';
import type { AcpConfig } from '../../providers/acp/options.js';
import type { Provider } from '../../providers/provider.js';
import { processesWith } from './processes.js';

export interface FixtureOptions extends Partial<Omit<AcpOptions, 'agents'>> {
  readonly agent?: Partial<AcpOptions['agents'][string]>;
}

export interface Fixture {
  readonly provider: Provider<AcpConfig>;
  /** Pids of what the agent left behind, its own among them. */
  left(): number[];
}

export const agentScript = (script: 'polite' | 'hostile') =>
  fileURLToPath(new URL(`../fixtures/agents/${script}.mjs`, import.meta.url));

export function fixture(script: 'polite' | 'hostile', mode: string, options: FixtureOptions = {}): Fixture {
  const word = randomBytes(8).toString('hex');
  const { agent, ...rest } = options;
  const provider = acpProvider({
    startTimeoutMs: 20_000,
    cancelGraceMs: 300,
    ...rest,
    agents: {
      fixture: {
        command: process.execPath,
        args: [agentScript(script), mode],
        cwd: tmpdir(),
        ...agent,
        env: { ...agent?.env, HOLDFAST_TEST_WORD: word },
      },
    },
  });
  return { provider, left: () => processesWith(word) };
}
