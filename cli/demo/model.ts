/** The model behind the agent: the caller's own when there is a key for one, else a script that costs nothing. */
import { startLocalModel } from '../../examples/local-model/server.js';
import type { Screen } from '../screen.js';
import type { Stage } from '../stage.js';

export interface Model {
  readonly baseUrl: string;
  readonly apiKey: string;
  readonly model?: string;
}

/**
 * By the chat completions of either service, which OpenCode's one generic client speaks. Only the scripted model was
 * tried with this demo: no key was at hand.
 */
export async function chooseModel(
  screen: Screen,
  stage: Stage,
  localModel: boolean,
  env = process.env,
): Promise<Model> {
  if (!localModel && env.OPENAI_API_KEY) {
    const model = env.OPENAI_MODEL || 'gpt-4.1-mini';
    const baseUrl = env.OPENAI_BASE_URL || 'https://api.openai.com/v1';
    screen.say(`Model: ${model} at ${baseUrl} (OPENAI_API_KEY is set; OPENAI_MODEL picks another)`);
    return { baseUrl, apiKey: env.OPENAI_API_KEY, model };
  }
  if (!localModel && env.ANTHROPIC_API_KEY) {
    const model = env.ANTHROPIC_MODEL || 'claude-haiku-4-5';
    const baseUrl = 'https://api.anthropic.com/v1';
    screen.say(`Model: ${model} at ${baseUrl} (ANTHROPIC_API_KEY is set; ANTHROPIC_MODEL picks another)`);
    return { baseUrl, apiKey: env.ANTHROPIC_API_KEY, model };
  }
  const local = await stage.hold(startLocalModel(), (server) => server.stop());
  const why = localModel ? '--local-model' : 'neither OPENAI_API_KEY nor ANTHROPIC_API_KEY is set';
  screen.say(`Model: a script that answers on ${local.url} like a language model (${why})`);
  return { baseUrl: local.url, apiKey: local.apiKey, model: local.model };
}
