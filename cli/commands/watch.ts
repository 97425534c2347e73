/** `holdfast watch`: an execution's log from any cursor, live to its end. */
import { follow } from '../follow.js';
import { hasTerminal } from '../question.js';
import { type CommonFlags, withSession } from '../session.js';
import { type ActionFlags, onActionOf } from './run.js';

export interface WatchFlags extends CommonFlags, ActionFlags {
  readonly after: number;
  readonly ask?: boolean;
  readonly quiet?: boolean;
}

export async function watch(executionId: string, flags: WatchFlags): Promise<number | undefined> {
  const canAsk = flags.ask === true && flags.json !== true;
  const onAction = onActionOf(flags, canAsk ? (hasTerminal() ? 'ask' : 'leave') : 'wait');
  return await withSession(flags, ({ client, out }) =>
    follow(client, out, {
      executionId,
      after: flags.after,
      onAction,
      cancelOnInterrupt: false,
      quiet: flags.quiet === true,
    }),
  );
}
