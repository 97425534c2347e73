/** What a conversation remembers between its turns: where its workspaces are, and answers that stand for all of it. */
import type { Json, JsonObject } from '../../protocol/json.js';
import { RememberedAnswers } from '../policy/remembered.js';
import type { RunContext } from '../provider.js';
import { rootsOf } from '../workspace/workspaces.js';

export class CommandMemory {
  readonly answers: RememberedAnswers;
  readonly #roots: Record<string, string>;

  /** Takes what an earlier turn handed on. What it cannot read counts as nothing. */
  constructor(session: Json | undefined) {
    this.answers = new RememberedAnswers(session);
    this.#roots = rootsOf(session);
  }

  /** The root that holds a kept workspace. */
  rootOf(workspace: string): string | undefined {
    return Object.hasOwn(this.#roots, workspace) ? this.#roots[workspace] : undefined;
  }

  keepRoot(workspace: string, rootId: string): void {
    this.#roots[workspace] = rootId;
  }

  /** Hands on what the next turn needs. */
  async handOn(ctx: Pick<RunContext, 'setSession'>): Promise<void> {
    const answers: JsonObject = Object.fromEntries(this.answers.newest());
    await ctx.setSession({ roots: this.#roots, ...(Object.keys(answers).length === 0 ? {} : { answers }) });
  }
}
