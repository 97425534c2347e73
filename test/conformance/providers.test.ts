/** Every provider that comes with Holdfast keeps the contract: one server and one worker for all of them. */

import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ConformanceReport, checkConformance, formatReport, type Scenarios } from '../../conformance/index.js';
import { promptScript, type Script } from '../../examples/local-model/script.js';
import { type LocalModel, startLocalModel } from '../../examples/local-model/server.js';
import { type RunningGateway, serveGateway } from '../../gateway/index.js';
import { acpProvider } from '../../providers/acp/acp.js';
import { remoteProvider } from '../../providers/remote/remote.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { rig } from '../providers/ai-rig.js';
import { script } from '../providers/command-rig.js';
import { agentScript } from '../support/acp-agents.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';
import { scratchFolder } from '../support/scratch.js';

const SLOTS = 2;
const IDS = ['scripted', 'remote', 'ai', 'acp', 'command'] as const;
type Id = (typeof IDS)[number];

/** Says what users said so far, when it is asked to. */
const recalling: Script = (request) => {
  const said = request.messages.filter(({ role }) => role === 'user').map(({ content }) => JSON.stringify(content));
  return said.at(-1)?.includes('RECALL') ? { kind: 'text', text: said.join(' ') } : promptScript(request);
};

const steps = (...given: object[]) => ({ config: { steps: given as never } });
const scripted: Scenarios = {
  text: { ...steps({ say: 'Hello conformance', chunk: 4 }), says: 'Hello conformance' },
  hang: steps({ say: 'x' }, { hang: true }),
  fail: { ...steps({ fail: 'on purpose' }), says: 'on purpose' },
  approval: { ...steps({ approve: { title: 'Go on?' } }), approved: 'approved', rejected: 'rejected' },
  input: { ...steps({ ask: { title: 'Which colour?' } }), says: 'blue' },
  artifact: steps({ artifact: { name: 'report', mediaType: 'text/plain', uri: 'https://files.example/1' } }),
};

const COMMAND = `
  const [word] = (await new Promise((r) => lines().once('line', r)).then((line) => JSON.parse(line).text)).split(' ');
  const answer = (id) => new Promise((r) => process.stdin.once('data', (data) => r(JSON.parse(String(data)))));
  if (word === 'hang') setInterval(() => {}, 1000);
  else if (word === 'fail') { say({ type: 'error', message: 'on purpose' }); }
  else {
    if (word === 'approve') say({ type: 'approve', id: 1, title: 'Go on?' });
    if (word === 'ask') say({ type: 'ask', id: 1, title: 'Which colour?' });
    if (word === 'approve' || word === 'ask') say({ type: 'text', text: JSON.stringify(await answer()) });
    if (word === 'artifact') say({ type: 'artifact', name: 'report', mediaType: 'text/plain' });
    say({ type: 'text', text: 'Hello conformance' });
    process.exit(0);
  }`;

const SCENARIOS: Readonly<Record<Id, Scenarios>> = {
  scripted,
  remote: scripted,
  ai: {
    text: { input: '[say:Hello conformance]', says: 'Hello conformance' },
    hang: { input: '[hang]' },
    fail: { input: '[fail:400]', says: 'asked for this failure' },
    approval: { input: '[tool:deploy:{"version":"7"}][say:Done.]', approved: 'Done.', rejected: 'Done.' },
    turns: [{ input: '[say:The word is plum]' }, { input: 'RECALL', says: 'plum' }],
  },
  acp: {
    text: { input: 'conformance', config: { agent: 'echo' }, says: 'You said: conformance' },
    hang: { config: { agent: 'stream' } },
    fail: { input: 'refusal', config: { agent: 'stop' } },
    approval: { config: { agent: 'ask' }, approved: 'selected', rejected: 'selected' },
    turns: [
      { input: 'one', config: { agent: 'remember' } },
      { input: 'two', config: { agent: 'remember' }, says: 'one, two' },
    ],
  },
  command: {
    text: { input: 'text', says: 'Hello conformance' },
    hang: { input: 'hang' },
    fail: { input: 'fail', says: 'on purpose' },
    approval: { input: 'approve', approved: '"approved":true', rejected: '"approved":false' },
    input: { input: 'ask', says: '"value":"blue"' },
    artifact: { input: 'artifact' },
  },
};

let cluster: Cluster;
let model: LocalModel;
let gateway: RunningGateway;
const reports = new Map<Id, Promise<ConformanceReport>>();

beforeAll(async () => {
  [cluster, model] = await Promise.all([Cluster.start(), startLocalModel({ script: recalling })]);
  gateway = await serveGateway({ client: cluster.client, port: 0, handleSignals: false });
  const agent = (mode: string, cwd = tmpdir()) => ({
    command: process.execPath,
    args: [agentScript('polite'), mode],
    cwd,
  });
  const agents = {
    echo: agent('echo'),
    stream: agent('stream'),
    stop: agent('stop'),
    ask: agent('ask'),
    remember: agent('remembers', scratchFolder('conformance-')),
  };
  const { capabilities } = scriptedProvider().manifest;
  await cluster.worker({
    pool: PATIENT_POOL,
    slots: Object.fromEntries(IDS.map((id) => [id, SLOTS])),
    providers: [
      scriptedProvider(),
      scriptedProvider({ id: 'elsewhere' }),
      remoteProvider({ baseURL: gateway.url, provider: 'elsewhere', capabilities }),
      rig({ url: model.url, apiKey: model.apiKey, runs: join(scratchFolder('conformance-'), 'runs') }),
      acpProvider({ agents, defaultAgent: 'echo', cancelGraceMs: 2_000 }),
      script(COMMAND, { command: { input: 'ndjson' } }).provider,
    ],
  });
  for (const providerId of IDS) {
    const { client } = cluster;
    const scenarios = SCENARIOS[providerId];
    reports.set(providerId, checkConformance({ client, providerId, scenarios, slots: SLOTS, timeoutMs: 60_000 }));
  }
}, 120_000);
afterAll(async () => {
  await cluster?.stop();
  await gateway?.close(0);
  await model?.stop();
});

describe('conformance', () => {
  test.each(IDS)(
    'of the provider %s',
    async (id) => {
      const report = await reports.get(id)!;
      expect(report.passed, formatReport(report)).toBe(true);
      const skipped = report.checks.filter(({ outcome }) => outcome === 'skipped').map(({ detail }) => detail);
      // What is claimed is checked: nothing is left out for want of a scenario.
      expect(skipped.filter((detail) => /no scenario|slots/.test(detail))).toEqual([]);
    },
    180_000,
  );
});
