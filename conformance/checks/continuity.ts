/** Conversations that continue, where that is claimed. */
import { setTimeout as delay } from 'node:timers/promises';
import { type Check, type Kit, must, mustRefuse, Skipped } from '../kit.js';
import { says } from './lifecycle.js';

const CAPABILITY = 'conversation.continuity';
/** For what must not begin: long enough for what would begin if it could. */
const WAIT_MS = 300;

export const continuityChecks: readonly Check[] = [
  {
    name: 'continuity.refused',
    async run(kit) {
      if ((await kit.level(CAPABILITY)) !== 'unsupported') throw new Skipped(`${CAPABILITY} is claimed`);
      const start = kit.start(kit.scenarios.text, { requiredCapabilities: [CAPABILITY] });
      await mustRefuse(`requiring ${CAPABILITY}`, start, 'CAPABILITY_UNSUPPORTED');
      return undefined;
    },
  },
  {
    name: 'continuity.turns',
    async run(kit) {
      await claimed(kit);
      const { hang, text } = kit.scenarios;
      const { id: conversationId } = await kit.client.createConversation();
      const first = await kit.start(hang, { conversationId });
      await kit.running(first.id);
      const second = await kit.start(text, { conversationId });
      const elsewhere = await kit.run(text);
      await delay(WAIT_MS);
      const { state } = await kit.client.getExecution(second.id);
      must(state === 'queued', `while the turn before runs, the second is ${state}`);
      await kit.client.cancel(first.id);
      const [one, two] = [await kit.finish(first.id), await kit.finish(second.id)];
      must(two.execution.state === 'succeeded', `the second turn is ${two.execution.state}`);
      const [ended = '', started = ''] = [one.execution.endedAt, two.execution.startedAt];
      must(ended <= started, `the second began at ${started}, before the first had ended at ${ended}`);
      must(elsewhere.execution.state === 'succeeded', 'another conversation had to wait');
      return undefined;
    },
  },
  {
    name: 'continuity.memory',
    async run(kit) {
      await claimed(kit);
      const [first, second] = kit.scenario('turns');
      const { id: conversationId } = await kit.client.createConversation();
      const one = await kit.run(first, { conversationId });
      must(one.execution.state === 'succeeded', `the first turn is ${one.execution.state}`);
      const two = await kit.run(second, { conversationId });
      must(two.execution.state === 'succeeded', `the second turn is ${two.execution.state}`);
      says(two.execution.finalOutput, second.says);
      const alone = await kit.run(second);
      const knows = (alone.execution.finalOutput ?? '').includes(second.says);
      must(!knows, 'a new conversation knows the same: the scenario shows nothing');
      return await kit.level(CAPABILITY);
    },
  },
];

async function claimed(kit: Kit): Promise<void> {
  if ((await kit.level(CAPABILITY)) === 'unsupported') throw new Skipped(`${CAPABILITY} is not claimed`);
}
