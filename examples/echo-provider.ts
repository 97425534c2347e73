/**
 * The smallest useful provider: it says its input back, word by word, and stops when told to. Copy it and put your
 * harness where the loop is. (In a project of your own, import both from `holdfast/provider`.)
 */
import { z } from 'zod';
import { PROTOCOL_VERSION } from '../protocol/manifest.js';
import type { Provider } from '../providers/provider.js';

export const echo: Provider<{ upper?: boolean | undefined }> = {
  manifest: {
    id: 'echo',
    name: 'Echo',
    version: '1.0.0',
    protocolVersion: PROTOCOL_VERSION,
    topologies: ['embedded'],
    capabilities: { 'event.streaming': 'native', 'execution.cancel': 'native' },
  },
  // Strict: a misspelt key is refused before anything runs.
  config: z.strictObject({ upper: z.boolean().optional() }),
  async run(ctx) {
    const text = typeof ctx.input === 'string' ? ctx.input : JSON.stringify(ctx.input);
    for (const word of text.split(/(?<=\s)/)) {
      ctx.signal.throwIfAborted();
      await ctx.emit('output.text.delta', { text: ctx.config.upper ? word.toUpperCase() : word });
    }
    // Without a `finalOutput` it is all the text above.
    return {};
  },
};
