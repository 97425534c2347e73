/** A provider with native sessions of its own, which can lose them: by `forget`, as a harness does that was reinstalled. */
import { z } from 'zod';
import { type CapabilityLevel, PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider } from '../../providers/provider.js';

export interface Sessions {
  readonly provider: Provider<object>;
  /** Loses all sessions. */
  forget(): void;
}

export function sessionProvider(id: string, continuity: CapabilityLevel): Sessions {
  const sessions = new Map<string, string[]>();
  let opened = 0;
  return {
    forget: () => sessions.clear(),
    provider: {
      manifest: {
        id,
        name: 'Sessions',
        version: '1',
        protocolVersion: PROTOCOL_VERSION,
        topologies: ['embedded'],
        capabilities: { 'conversation.continuity': continuity },
      },
      config: z.strictObject({}),
      async run(ctx) {
        let name = ctx.conversation.session as string | undefined;
        if (name !== undefined && !sessions.has(name)) {
          await ctx.sessionLost(`there is no ${name}`);
          name = undefined;
        }
        if (name === undefined) {
          name = `session ${++opened}`;
          sessions.set(name, []);
          await ctx.setSession(name);
        }
        const said = sessions.get(name) ?? [];
        said.push(String(ctx.input));
        return { finalOutput: said.join(' ') };
      },
    },
  };
}
