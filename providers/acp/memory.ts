/**
 * What a conversation remembers between its turns: the native session with each agent, and answers that stand for all of
 * it. The runtime keeps it, as the conversation's session reference of this provider.
 */
import { z } from 'zod';
import { type Json, jsonBytes, throughJson } from '../../protocol/json.js';
import { MAX_SESSION_BYTES } from '../../protocol/limits.js';
import { RememberedAnswers } from '../policy/remembered.js';
import { rootsOf } from '../workspace/workspaces.js';

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
  /** Answers that stand for the conversation. */
  readonly answers: RememberedAnswers;
  readonly #roots: Record<string, string>;

  /** Takes what an earlier turn handed on. What it cannot read counts as nothing. */
  constructor(kept: Json | undefined) {
    const parsed = memorySchema.safeParse(kept);
    this.#agents = new Map(Object.entries(parsed.success ? parsed.data.agents : {}));
    this.#roots = rootsOf(kept);
    this.answers = new RememberedAnswers(kept);
  }

  session(agent: string): RememberedSession | undefined {
    return this.#agents.get(agent);
  }

  remember(agent: string, session: RememberedSession): void {
    this.#agents.delete(agent);
    this.#agents.set(agent, session);
  }

  /** The root that holds a kept workspace. */
  rootOf(workspace: string): string | undefined {
    return Object.hasOwn(this.#roots, workspace) ? this.#roots[workspace] : undefined;
  }

  keepRoot(workspace: string, rootId: string): void {
    this.#roots[workspace] = rootId;
  }

  /** What to hand on: within the runtime's bound, without the oldest answers and then sessions if it must be. */
  toJson(): Json {
    const agents = [...this.#agents];
    const answers = this.answers.newest();
    const json = (): Json =>
      throughJson({
        agents: Object.fromEntries(agents),
        ...(Object.keys(this.#roots).length === 0 ? {} : { roots: this.#roots }),
        ...(answers.length === 0 ? {} : { answers: Object.fromEntries(answers) }),
      }) as unknown as Json;
    while (jsonBytes(json()) > MAX_SESSION_BYTES && (answers.length > 0 || agents.length > 1))
      (answers.length > 0 ? answers : agents).shift();
    return json();
  }
}
