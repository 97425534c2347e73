/**
 * What a conversation remembers between its turns: the native session with each agent, kept by the runtime as the
 * conversation's session reference of this provider.
 */
import { z } from 'zod';
import { type Json, jsonBytes, throughJson } from '../../protocol/json.js';
import { MAX_SESSION_BYTES } from '../../protocol/limits.js';

const sessionSchema = z.object({
  id: z.string().min(1),
  /** Where it was opened, as a request names the place. */
  place: z.string(),
  /** What the agent had counted for it when the turn ended, in US dollars. */
  costUsd: z.number().nonnegative().optional(),
});
export type RememberedSession = z.infer<typeof sessionSchema>;

const memorySchema = z.object({
  /** By agent; the one that was used last stands last. */
  agents: z.record(z.string(), sessionSchema).default({}),
});

export class ConversationMemory {
  readonly #agents: Map<string, RememberedSession>;

  /** Takes what an earlier turn handed on. What it cannot read counts as nothing. */
  constructor(kept: Json | undefined) {
    const parsed = memorySchema.safeParse(kept);
    this.#agents = new Map(Object.entries(parsed.success ? parsed.data.agents : {}));
  }

  session(agent: string): RememberedSession | undefined {
    return this.#agents.get(agent);
  }

  remember(agent: string, session: RememberedSession): void {
    this.#agents.delete(agent);
    this.#agents.set(agent, session);
  }

  /** What to hand on: within the runtime's bound, without the agents that were used longest ago if it must be. */
  toJson(): Json {
    const agents = [...this.#agents];
    const json = (): Json => throughJson({ agents: Object.fromEntries(agents) }) as unknown as Json;
    while (agents.length > 1 && jsonBytes(json()) > MAX_SESSION_BYTES) agents.shift();
    return json();
  }
}
