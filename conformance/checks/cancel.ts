/** Cancelling, in every state. */
import type { HoldfastEvent } from '../../protocol/event.js';
import { type Check, type Kit, must, mustEqual, mustRefuse, Skipped } from '../kit.js';
import { cancelled, cancelledRun, confirmationOf, endOf } from './cancelled.js';
import { textRun } from './lifecycle.js';

const TRIES = 4;

export const cancelChecks: readonly Check[] = [
  {
    name: 'cancel.queued',
    async run(kit) {
      const holders: string[] = [];
      const { id, how } = await queued(kit, holders);
      await kit.client.cancel(id, 'not now');
      const { events } = await cancelled(kit, id);
      must(!events.some(({ type }) => type === 'run.started'), 'it was started after all');
      mustEqual('the confirmation', confirmationOf(events), 'not_running');
      for (const holder of holders) await kit.client.cancel(holder);
      for (const holder of holders) await cancelled(kit, holder);
      return how;
    },
  },
  {
    name: 'cancel.starting',
    async run(kit) {
      const ends: string[] = [];
      for (let tries = 0; tries < TRIES && !ends.some((end) => end.startsWith('starting')); tries++) {
        const { id } = await kit.start(kit.scenarios.hang);
        // It lasts for milliseconds. The first try is cancelled at once.
        let { state } = await kit.client.getExecution(id);
        while (tries > 0 && state === 'queued') ({ state } = await kit.client.getExecution(id));
        await kit.client.cancel(id);
        const { events } = await cancelled(kit, id);
        // A provider that was called in the same moment has no run.started: nothing is logged after the request.
        const confirmation = await cleanConfirmation(kit, events, ['not_running', 'cooperative', 'forced']);
        ends.push(`${state}: ${confirmation}`);
      }
      return ends.join(', ');
    },
  },
  {
    name: 'cancel.running',
    async run(kit) {
      const { events } = await cancelledRun(kit);
      return await cleanConfirmation(kit, events, ['cooperative', 'forced']);
    },
  },
  {
    name: 'cancel.cancelling',
    async run(kit) {
      const { second, events } = await cancelledRun(kit);
      must(second === 'cancelling' || second === 'cancelled', `after two cancels it is ${second}`);
      mustEqual('the reason', endOf(events)?.data.reason, 'enough');
      return undefined;
    },
  },
  {
    name: 'cancel.ended',
    async run(kit) {
      for (const { execution, events } of [await textRun(kit), await cancelledRun(kit)]) {
        const after = await kit.client.cancel(execution.id, 'too late');
        mustEqual('the state of what had ended', after.state, execution.state);
        const again = await kit.finish(execution.id);
        mustEqual('the log of what had ended', again.events, events);
      }
      return undefined;
    },
  },
  ...(['approval', 'input'] as const).map((kind) => cancelAwaiting(kind)),
  {
    name: 'invariant.5-cancel-is-a-request',
    async run(kit) {
      const { first, known, events } = await cancelledRun(kit);
      must(first === 'cancelling' || first === 'cancelled', `after the request it is ${first}`);
      const later = events.slice(known.length).map(({ type }) => type);
      const closing = known.at(-1)?.type === 'run.cancelled' ? [] : ['run.cancelled'];
      mustEqual('what was logged after the request', later, closing);
      return `${first} at first`;
    },
  },
  {
    name: 'invariant.8-concurrent-cancels',
    async run(kit) {
      const { id } = await kit.start(kit.scenarios.hang);
      await kit.running(id);
      await Promise.all([1, 2, 3, 4, 5].map((n) => kit.client.cancel(id, `reason ${n}`)));
      const { events } = await cancelled(kit, id);
      mustEqual('how many ends it has', events.filter(({ type }) => type === 'run.cancelled').length, 1);
      const cleanups = kit.options.cleanups?.get(id);
      must(cleanups === undefined || cleanups <= 1, `the provider's cleanup was called ${cleanups} times`);
      return kit.options.cleanups === undefined ? 'cleanups were not seen' : `${cleanups ?? 0} cleanups`;
    },
  },
];

/** How its end was confirmed; where cancelling is claimed without reservation, as one of `wanted`. */
async function cleanConfirmation(
  kit: Kit,
  events: readonly HoldfastEvent[],
  wanted: readonly string[],
): Promise<string | undefined> {
  const confirmation = confirmationOf(events);
  const level = await kit.level('execution.cancel');
  const isClaimed = level === 'native' || level === 'emulated';
  const isClean = confirmation !== undefined && wanted.includes(confirmation);
  must(isClean || !isClaimed, `execution.cancel is ${level}, and the end says ${confirmation}`);
  return confirmation;
}

function cancelAwaiting(kind: 'approval' | 'input'): Check {
  const state = `awaiting_${kind}` as const;
  return {
    name: `cancel.${state}`,
    async run(kit) {
      const scenario = await kit.needs(`action.${kind}`, kind);
      const { id } = await kit.start(scenario);
      const { pendingActions } = await kit.until(id, state, (execution) => execution.state === state);
      const [action] = pendingActions;
      must(action !== undefined, `it is ${state} and has no open action`);
      await kit.client.cancel(id);
      const { execution, events } = await cancelled(kit, id);
      mustEqual('open actions at the end', execution.pendingActions, []);
      must(!events.some(({ type }) => type === 'action.responded'), 'a withdrawn action has an answer');
      const late = kit.client.respond(id, action.id, { approved: true, value: 'late' });
      await mustRefuse('a late answer', late, 'INVALID_STATE');
      return confirmationOf(events);
    },
  };
}

/** An execution that cannot start as long as the holders run. */
async function queued(kit: Kit, holders: string[]): Promise<{ id: string; how: string }> {
  const { hang, text } = kit.scenarios;
  const takesTurns = (await kit.level('conversation.continuity')) !== 'unsupported';
  const { slots } = kit.options;
  if (!takesTurns && slots === undefined)
    throw new Skipped('nothing here makes an execution wait (slots are not known)');
  const { id: conversationId } = await kit.client.createConversation();
  const more = takesTurns ? { conversationId } : {};
  for (let n = 0; n < (takesTurns ? 1 : (slots ?? 0)); n++) {
    const { id } = await kit.start(hang, more);
    holders.push(id);
    await kit.running(id);
  }
  const { id } = await kit.start(text, more);
  const { state } = await kit.client.getExecution(id);
  must(state === 'queued', `behind what runs it is ${state}, not queued`);
  return { id, how: takesTurns ? 'by its turn' : `by ${slots} slots` };
}
