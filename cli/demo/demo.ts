/**
 * `holdfast demo`, which is `npm start`: everything that Holdfast needs, started for one run and gone after it. The
 * first act runs a real coding agent; the second (`--crash`) kills workers under a running execution.
 */
import { Screen } from '../screen.js';
import { Stage } from '../stage.js';
import { agentAct } from './agent-act.js';
import { crashAct } from './crash-act.js';

export interface DemoFlags {
  readonly crash?: boolean;
  readonly keep?: boolean;
  readonly localModel?: boolean;
}

/** Resolves when nothing is left running. @throws Interrupted after Ctrl-C; whatever went wrong */
export async function demo(flags: DemoFlags): Promise<void> {
  const screen = new Screen();
  const stage = new Stage(() => screen.say('\nStopping. Ctrl-C again ends everything at once.'));
  try {
    const { server } = flags.crash
      ? await crashAct(screen, stage)
      : await agentAct(screen, stage, { localModel: flags.localModel === true });
    if (flags.keep) {
      screen.heading('Staying up until Ctrl-C');
      if (server.uiUrl !== undefined) screen.say(`Temporal UI: ${server.uiUrl}`);
      screen.say(`Temporal server, for clients of your own: ${server.address}, namespace ${server.namespace}`);
      await stage.interrupted();
    }
  } finally {
    await stage.close();
  }
  screen.say('\nAll that was started for this run is gone again.');
}
