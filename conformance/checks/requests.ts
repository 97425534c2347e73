/** What is checked before work begins, and what a key stands for. */
import { randomUUID } from 'node:crypto';
import type { JsonObject } from '../../protocol/json.js';
import { type Check, must, mustEqual, mustRefuse } from '../kit.js';
import { textRun } from './lifecycle.js';

const NO_SUCH_CAPABILITY = 'conformance.no-such-thing';

export const requestChecks: readonly Check[] = [
  {
    name: 'invariant.3-capabilities',
    async run(kit) {
      const { id: conversationId } = await kit.client.createConversation();
      const { text } = kit.scenarios;
      const idempotencyKey = randomUUID();
      const refused = kit.start(text, { conversationId, idempotencyKey, requiredCapabilities: [NO_SUCH_CAPABILITY] });
      await mustRefuse(`requiring ${NO_SUCH_CAPABILITY}`, refused, 'CAPABILITY_UNSUPPORTED');
      const { capabilities } = await kit.manifest();
      const claimed = Object.entries(capabilities).filter(([, level]) => level !== 'unsupported');
      const requiredCapabilities = claimed.map(([name]) => name);
      // The same key: had anything been started, this would be another request for it.
      const started = await kit.submit(text, { conversationId, idempotencyKey, requiredCapabilities });
      must(!started.replayed, 'the refused request had started something');
      const { events, execution } = await kit.finish(started.execution.id);
      must(execution.state === 'succeeded', `what requires all that is claimed is ${execution.state}`);
      const [accepted] = events.flatMap((event) => (event.type === 'run.started' ? [event.data.capabilities] : []));
      mustEqual('capabilities in run.started', Object.entries(accepted ?? {}).sort(), claimed.sort());
      return `${claimed.length} claimed`;
    },
  },
  {
    name: 'invariant.4-idempotency',
    async run(kit) {
      const { id: conversationId } = await kit.client.createConversation();
      const { text } = kit.scenarios;
      const same = { conversationId, idempotencyKey: randomUUID() };
      const starts = await Promise.all([1, 2, 3].map(() => kit.submit(text, same)));
      const ids = new Set(starts.map(({ execution }) => execution.id));
      must(ids.size === 1, `one key at once started ${ids.size} executions`);
      mustEqual('how many of three starts were no replay', starts.filter(({ replayed }) => !replayed).length, 1);
      const config = reversed(text.config ?? {});
      const again = await kit.submit({ ...text, config }, same);
      must(again.replayed && ids.has(again.execution.id), 'the order of keys made another execution');
      const other = { ...text, input: { conformance: 'another input' } };
      await mustRefuse('the key for another input', kit.submit(other, same), 'IDEMPOTENCY_CONFLICT');
      const elsewhere = await kit.submit(text, { idempotencyKey: same.idempotencyKey });
      must(!ids.has(elsewhere.execution.id), 'a key of one conversation was found in another');
      await Promise.all([...ids, elsewhere.execution.id].map((id) => kit.finish(id)));
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
