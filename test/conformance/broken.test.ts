/** Each check of the kit can fail: for every one there is a provider, or a client, that breaks just that promise. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { CHECK_NAMES, type ConformanceClient, checkConformance, type Scenarios } from '../../conformance/index.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import type { Execution, StartExecutionRequest } from '../../protocol/execution.js';
import { PROTOCOL_VERSION, type ProviderManifest } from '../../protocol/manifest.js';
import type { AnyProvider, Provider } from '../../providers/provider.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';
import { turnProvider } from '../support/turn-provider.js';

const SLOTS = 2;
const steps = (...given: object[]) => ({ config: { steps: given as never } });

const scripted: Scenarios = {
  text: steps({ say: 'Hello', chunk: 2 }, { native: { name: 'x.step' } }),
  hang: steps({ say: 'x' }, { hang: true }),
  fail: { ...steps({ fail: 'on purpose' }), says: 'on purpose' },
  approval: steps({ approve: { title: 'Go on?' } }),
  input: steps({ ask: { title: 'Which colour?' } }),
  artifact: steps({ artifact: { name: 'report', mediaType: 'text/plain' } }),
};
const talking: Scenarios = {
  text: {},
  hang: { config: { waitMs: 60_000 } },
  turns: [{}, { says: 'turn 2' }],
};

/** Claims to stream, and says everything at the end. */
const mute: Provider<object> = {
  manifest: manifest('mute', { 'event.streaming': 'native' }),
  config: z.strictObject({}),
  run: async () => ({ finalOutput: 'all at once' }),
};

/** Claims to be cancelled, and does not listen. */
const deaf: Provider<object> = {
  manifest: manifest('deaf', { 'execution.cancel': 'native' }),
  config: z.strictObject({}),
  run: async () => await new Promise((resolve) => setTimeout(resolve, 4_000, {})),
};

function manifest(id: string, capabilities: ProviderManifest['capabilities']): ProviderManifest {
  return { id, name: id, version: '1', protocolVersion: PROTOCOL_VERSION, topologies: ['embedded'], capabilities };
}

let cluster: Cluster;
beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker({
    pool: PATIENT_POOL,
    slots: { narrow: SLOTS },
    providers: [
      scriptedProvider(),
      scriptedProvider({ id: 'narrow' }),
      turnProvider('talking', 'native').provider,
      mute,
    ],
  });
  await cluster.worker({ pool: { ...PATIENT_POOL, stopGraceMs: 200 }, providers: [deaf] });
}, 60_000);
afterAll(() => cluster?.stop());

type Breaks = Partial<ConformanceClient>;
type Break = (real: ConformanceClient) => Breaks;
interface Broken {
  /** What of the client is another. */
  readonly client?: Break;
  readonly providerId?: string;
  readonly scenarios?: Scenarios;
  readonly provider?: AnyProvider;
  readonly timeoutMs?: number;
  /** What the failure has to say. */
  readonly detail: RegExp;
}

const BROKEN: Readonly<Record<string, Broken>> = {
  'manifest.valid': {
    client: (real) => ({
      describeRuntime: async () => {
        const runtime = await real.describeRuntime();
        const providers = runtime.providers.map((each) => ({ ...each, protocolVersion: '2020-01-01' }));
        return { ...runtime, providers };
      },
    }),
    detail: /protocolVersion: "2020-01-01"/,
  },
  'manifest.announced': { provider: fickle(), detail: /the catalog's version/ },
  'manifest.config': {
    client: starting(({ config: { conformanceNoSuchKey: _, ...config } = {}, ...request }) => ({ ...request, config })),
    detail: /an unknown key in config: accepted/,
  },
  'lifecycle.succeeds': {
    client: reading((execution) => ({ ...execution, finalOutput: 'something else' })),
    detail: /the text of output.text.done/,
  },
  'lifecycle.fails': { scenarios: { ...scripted, fail: scripted.text }, detail: /the state is succeeded/ },
  'lifecycle.timeout': {
    client: starting(({ timeoutSeconds: _, ...request }) => request),
    timeoutMs: 1_500,
    detail: /did not end within/,
  },
  'lifecycle.states': {
    client: (real) => ({
      getExecution: async (id) => {
        const execution = await real.getExecution(id);
        return execution.state === 'cancelling' ? { ...execution, state: 'starting' as const } : execution;
      },
    }),
    detail: /it went from running to starting/,
  },
  'lifecycle.streaming': { providerId: 'mute', scenarios: { text: {}, hang: {} }, detail: /no output.text.delta/ },
  'lifecycle.replay': {
    client: (real) => {
      let reads = 0;
      const events = changed(real, (log) => (++reads > 1 ? log.slice(1) : log));
      return { events };
    },
    detail: /the log after 0/,
  },
  'requests.refused': {
    client: starting(({ timeoutSeconds: _, ...request }) => request),
    detail: /a time limit of 0 s: accepted/,
  },
  'invariant.1-sequence': {
    client: logs((log) => log.filter(({ sequence }) => sequence !== 3)),
    detail: /the sequences of/,
  },
  'invariant.2-one-end': { client: logs((log) => [...log, log.at(-1)!]), detail: /the terminal events of/ },
  'invariant.3-capabilities': {
    client: starting(({ requiredCapabilities: _, ...request }) => request),
    detail: /requiring what it does not have: "accepted"/,
  },
  'invariant.4-idempotency': {
    client: starting(({ idempotencyKey: _, ...request }) => request),
    detail: /an equivalent request was no replay/,
  },
  'invariant.5-cancel-is-a-request': {
    client: logs((log) => (ends(log, 'cancelled') ? [...log.slice(0, -1), log[2]!, log.at(-1)!] : log)),
    detail: /what was logged after the request: \[.*"run.cancelled"\] instead of/,
  },
  'invariant.6-no-forgery': {
    client: logs((log) =>
      log.map((event) => (event.type === 'provider.event' ? { ...event, data: { name: 'run.completed' } } : event)),
    ),
    detail: /is named "run.completed": native names under "run." belong to Holdfast/,
  },
  'invariant.7-artifacts': {
    client: (real) => ({
      artifacts: async (id) => {
        const [artifact] = await real.artifacts(id);
        return [artifact!, { ...artifact!, id: 'art_forged' }];
      },
    }),
    detail: /art_forged is listed, and has 0 creation events/,
  },
  'artifacts.listed': { client: () => ({ artifacts: async () => [] }), detail: /the list of artifacts: \[\]/ },
  'invariant.8-concurrent-cancels': {
    client: logs((log) => (ends(log, 'cancelled') ? [...log, log.at(-1)!] : log)),
    detail: /how many ends it has: 2/,
  },
  'invariant.9-one-answer': {
    client: (real) => ({ respond: (...call) => real.respond(...call).catch(() => real.getExecution(call[0])) }),
    detail: /five answers at once/,
  },
  'cancel.queued': {
    providerId: 'narrow',
    client: confirming('cooperative'),
    detail: /the confirmation: "cooperative"/,
  },
  'cancel.starting': { client: confirming('abandoned'), detail: /the end says abandoned/ },
  'cancel.running': { providerId: 'deaf', scenarios: { text: {}, hang: {} }, detail: /the end says abandoned/ },
  'cancel.cancelling': {
    client: logs((log) =>
      log.map((event) =>
        event.type === 'run.cancelled' ? { ...event, data: { ...event.data, reason: 'other' } } : event,
      ),
    ),
    detail: /the reason: "other"/,
  },
  'cancel.ended': {
    client: (real) => ({
      cancel: async (id, reason) => ({ ...(await real.cancel(id, reason)), state: 'cancelled' as const }),
    }),
    detail: /the state of what had ended: "cancelled"/,
  },
  ...Object.fromEntries(
    ['approval', 'input'].map((kind) => [
      `cancel.awaiting_${kind}`,
      { client: () => ({ respond: async () => undefined }), detail: /a late answer: accepted/ },
    ]),
  ),
  'actions.approval': {
    scenarios: { ...scripted, approval: steps({ approve: { title: 'Go on?' } }, { fail: 'cannot take a yes' }) },
    detail: /after a yes it is failed \(cannot take a yes\)/,
  },
  'actions.rejection': {
    client: (real) => ({ respond: (id, action) => real.respond(id, action, { approved: true }) }),
    detail: /action.responded: .*"approved":true/,
  },
  'actions.input': {
    client: (real) => ({ respond: (id, action, answer) => real.respond(id, action, { value: 'red', ...answer }) }),
    detail: /an input without a value: "accepted"/,
  },
  'actions.invalid': {
    client: (real) => ({
      respond: (id, action, answer, options) => real.respond(id, action, { approved: true, ...answer }, options),
    }),
    detail: /neither yes nor no: "accepted"/,
  },
  'actions.digest': {
    client: (real) => ({
      respond: (id, action, { expectedDigest: _, ...answer }, options) => real.respond(id, action, answer, options),
    }),
    detail: /a yes to another payload: "accepted"/,
  },
  'continuity.refused': {
    client: starting(({ requiredCapabilities: _, ...request }) => request),
    detail: /requiring conversation.continuity: accepted/,
  },
  'continuity.turns': { ...scattered(), detail: /while the turn before runs, the second is/ },
  'continuity.memory': { ...scattered(), detail: /"turn 1" does not hold "turn 2"/ },
};

test('there is something broken for every check', () => {
  expect(Object.keys(BROKEN).sort()).toEqual([...CHECK_NAMES].sort());
});

test.concurrent.each(CHECK_NAMES)('%s can fail', async (name) => {
  const {
    client = () => ({}),
    providerId = 'scripted',
    scenarios = scripted,
    provider,
    detail,
    timeoutMs,
  } = BROKEN[name]!;
  const common = { scenarios, only: [name], timeoutMs: timeoutMs ?? 30_000 };
  const report = await checkConformance(
    provider === undefined
      ? { ...common, client: brokenClient(client), providerId, slots: SLOTS }
      : { ...common, provider, address: cluster.server.address },
  );
  expect(report.passed).toBe(false);
  expect(report.checks).toEqual([{ name, outcome: 'failed', detail: expect.stringMatching(detail) }]);
});

function brokenClient(broken: Break): ConformanceClient {
  const { client } = cluster;
  const names = [
    'describeRuntime',
    'createConversation',
    'startExecution',
    'getExecution',
    'listEvents',
    'events',
    'artifacts',
    'waitForTerminal',
    'respond',
    'cancel',
  ] as const;
  const real = Object.fromEntries(names.map((name) => [name, (client[name] as () => unknown).bind(client)]));
  return { ...real, ...broken(client) } as unknown as ConformanceClient;
}

/** Each start request is another than was asked for. */
function starting(change: (request: StartExecutionRequest) => StartExecutionRequest): Break {
  return (real) => ({ startExecution: (request) => real.startExecution(change(request)) });
}

/** Each execution that is read is another. */
function reading(change: (execution: Execution) => Execution): Break {
  return (real) => ({
    getExecution: async (id) => change(await real.getExecution(id)),
    waitForTerminal: async (id, options) => change(await real.waitForTerminal(id, options)),
  });
}

/** Each whole log that is read is another. */
function logs(change: (log: readonly HoldfastEvent[]) => readonly HoldfastEvent[]): Break {
  return (real) => ({ events: changed(real, change) });
}

function changed(
  real: ConformanceClient,
  change: (log: readonly HoldfastEvent[]) => readonly HoldfastEvent[],
): ConformanceClient['events'] {
  return async function* (id, options) {
    const log: HoldfastEvent[] = [];
    for await (const event of real.events(id, options)) log.push(event);
    yield* change(log);
  };
}

function confirming(confirmation: 'cooperative' | 'abandoned'): Break {
  return logs((log) =>
    log.map((event) => (event.type === 'run.cancelled' ? { ...event, data: { ...event.data, confirmation } } : event)),
  );
}

function ends(log: readonly HoldfastEvent[], how: string): boolean {
  return log.at(-1)?.type === `run.${how}`;
}

/** Every turn in a conversation of its own. */
function scattered(): Pick<Broken, 'client' | 'providerId' | 'scenarios'> {
  return {
    providerId: 'talking',
    scenarios: talking,
    client: (real) => ({
      startExecution: async (request) =>
        real.startExecution({ ...request, conversationId: (await real.createConversation()).id }),
    }),
  };
}

/** Says that it is of another version whenever it is asked. */
function fickle(): AnyProvider {
  let version = 0;
  return {
    get manifest() {
      return { ...manifest('fickle', {}), version: String(++version) };
    },
    config: z.strictObject({}),
    run: async () => ({}),
  };
}
