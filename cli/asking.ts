/** An open action put to the person at the terminal. Whatever the agent wrote stands behind a bar and is made harmless. */
import { confirm, isCancel, select, text } from '@clack/prompts';
import { type ActionRequest, type ActionResponse, approvalOptions } from '../protocol/action.js';
import type { Json } from '../protocol/json.js';
import { oneLine } from './text.js';

/** `left`: taken back, since it was answered elsewhere or nobody waits for it any more. `interrupted`: Ctrl-C. */
export type Said = ActionResponse | 'left' | 'interrupted';

export async function askPerson(action: ActionRequest, signal: AbortSignal): Promise<Said> {
  for (;;) {
    const key = lastKey();
    try {
      const said = await prompt(action, signal);
      if (said !== undefined) return said;
      if (signal.aborted) return 'left';
      // Escape closes a prompt too; that is no answer, so it is asked again.
      if (key.isInterrupt()) return 'interrupted';
    } finally {
      key.stop();
    }
  }
}

async function prompt(action: ActionRequest, signal: AbortSignal): Promise<ActionResponse | undefined> {
  if (action.kind === 'input') {
    const { valueSchema } = action;
    const value = await text({ message: valueSchema === undefined ? 'Your answer' : 'Your answer, as JSON', signal });
    return isCancel(value) ? undefined : { value: valueSchema === undefined ? (value ?? '') : fromJson(value ?? '') };
  }
  const options = approvalOptions(action.payload) ?? [];
  if (options.length === 0) {
    // A stray Enter is no approval.
    const approved = await confirm({ message: 'May it?', initialValue: false, signal });
    return isCancel(approved) ? undefined : { approved };
  }
  const chosen = await select({
    message: 'May it?',
    options: options.map(({ id, name, kind }) => ({ value: id, label: oneLine(name), hint: kind.replace('_', ' ') })),
    initialValue: options.find(({ kind }) => kind.startsWith('reject'))?.id ?? options[0]?.id ?? '',
    signal,
  });
  if (isCancel(chosen)) return undefined;
  const approved = options.find(({ id }) => id === chosen)?.kind.startsWith('allow') === true;
  return { approved, value: { optionId: chosen } };
}

/** Text that is no JSON is a text: whether the shape takes it, the runtime says. */
function fromJson(text: string): Json {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return text;
  }
}

/** While a prompt edits its line the terminal sends Ctrl-C as a key, and no signal comes. */
function lastKey(): { isInterrupt(): boolean; stop(): void } {
  let interrupt = false;
  const look = (_: unknown, key?: { name?: string; ctrl?: boolean }): void => {
    interrupt = key?.name === 'c' && key.ctrl === true;
  };
  process.stdin.on('keypress', look);
  return { isInterrupt: () => interrupt, stop: () => process.stdin.off('keypress', look) };
}
