/** What is checked before work begins, and what a key stands for. */
import type { JsonObject } from '../../protocol/json.js';
import { type Check, must, mustEqual, mustRefuse } from '../kit.js';
import { textRun } from './lifecycle.js';

export const requestChecks: readonly Check[] = [
  {
    name: 'invariant.3-capabilities',
    async run(kit) {
      const { refusal, replayed, claimed, execution, events } = await textRun(kit);
      mustEqual('requiring what it does not have', refusal, 'CAPABILITY_UNSUPPORTED');
      must(!replayed, 'the refused request had started something');
      must(execution.state === 'succeeded', `what requires all that is claimed is ${execution.state}`);
      const [accepted] = events.flatMap((event) => (event.type === 'run.started' ? [event.data.capabilities] : []));
      mustEqual('capabilities in run.started', accepted, Object.fromEntries(claimed));
      return `${claimed.length} claimed`;
    },
  },
  {
    name: 'invariant.4-idempotency',
    async run(kit) {
      const { text } = kit.scenarios;
      const { request, execution } = await textRun(kit);
      const config = reversed(text.config ?? {});
      const requiredCapabilities = [...request.requiredCapabilities].reverse();
      const again = await kit.submit({ ...text, config }, { ...request, requiredCapabilities });
      must(again.replayed, 'an equivalent request was no replay');
      mustEqual('what it returned', again.execution.id, execution.id);
      const other = { ...text, input: { conformance: 'another input' } };
      await mustRefuse('the key for another input', kit.submit(other, request), 'IDEMPOTENCY_CONFLICT');
      const { id: conversationId } = await kit.client.createConversation();
      const starts = await Promise.all([1, 2, 3].map(() => kit.submit(text, { ...request, conversationId })));
      const ids = new Set(starts.map((started) => started.execution.id));
      must(ids.size === 1, `one key at once started ${ids.size} executions`);
      must(!ids.has(execution.id), 'a key of one conversation was found in another');
      mustEqual('how many of three starts were no replay', starts.filter(({ replayed }) => !replayed).length, 1);
      for (const id of ids) await kit.finish(id);
      return undefined;
    },
  },
  {
    name: 'requests.refused',
    async run(kit) {
      const { text } = kit.scenarios;
      await mustRefuse('no such conversation', kit.start(text, { conversationId: 'conv_none' }), 'NOT_FOUND');
      await mustRefuse('no such provider', kit.start(text, { providerId: 'conformance-none' }), 'PROVIDER_NOT_FOUND');
      await mustRefuse('a time limit of 0 s', kit.start(text, { timeoutSeconds: 0 }), 'VALIDATION_ERROR');
      await mustRefuse('no such execution', kit.client.getExecution('exec_none'), 'NOT_FOUND');
      const { execution } = await textRun(kit);
      await mustRefuse(
        'no such action',
        kit.client.respond(execution.id, 'act_none', { approved: true }),
        'ACTION_NOT_FOUND',
      );
      return undefined;
    },
  },
];

function reversed(config: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(config).reverse());
}
