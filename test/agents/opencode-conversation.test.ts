/** A conversation with the real OpenCode on a real server: it remembers, also when its worker was replaced. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openCodeAgent, resolveOpenCode } from '../../dev/opencode.js';
import { type LocalModel, type LoggedRequest, startLocalModel } from '../../examples/local-model/server.js';
import { acpProvider } from '../../providers/acp/acp.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';
import { processesWith } from '../support/processes.js';
import { scratchFolder } from '../support/scratch.js';

let model: LocalModel;
let cluster: Cluster;
let command: string;

beforeAll(async () => {
  ({ command } = await resolveOpenCode({ onProgress: (line) => process.stderr.write(`${line}\n`) }));
  model = await startLocalModel();
  cluster = await Cluster.start();
}, 600_000);

afterAll(async () => {
  await cluster?.stop();
  await model?.stop();
});

/** What the model was told by people and said itself, in one request. */
const told = ({ body }: LoggedRequest) => JSON.stringify(body.messages.filter(({ role }) => role !== 'system'));

test('three turns: the third request to the model holds the first two, though the worker was replaced', async () => {
  const home = scratchFolder('holdfast-opencode-');
  const workspace = scratchFolder('holdfast-workspace-');
  // A worker of the same configuration, as after a deploy: a new password, the same home.
  const worker = () => {
    const agent = openCodeAgent({ command, home, workspace, model: { baseUrl: model.url, apiKey: model.apiKey } });
    return cluster.worker({ providers: [acpProvider({ agents: { opencode: agent } })], pool: PATIENT_POOL });
  };
  const { id: conversationId } = await cluster.client.createConversation();
  const turn = async (input: string): Promise<string> => {
    const { id } = await cluster.start({
      providerId: 'acp',
      conversationId,
      input,
      requiredCapabilities: ['conversation.continuity'],
    });
    const ended = await cluster.client.waitForTerminal(id, { timeoutMs: 100_000 });
    expect([ended.state, ended.error]).toEqual(['succeeded', undefined]);
    return ended.finalOutput ?? '';
  };

  const first = await worker();
  expect(await turn('My name is Mirabell. [say:Noted, teal it is.]')).toBe('Noted, teal it is.');
  expect(await turn('The code word is heliotrope. [say:I keep heliotrope.]')).toBe('I keep heliotrope.');
  await first.shutdown({ drainMs: 0 });
  expect(processesWith(home)).toEqual([]);

  await worker();
  const before = model.requests.length;
  expect(await turn('Who am I? [say:You are Mirabell.]')).toBe('You are Mirabell.');
  const [request] = model.requests.slice(before).filter(({ title }) => !title);
  expect(request).toBeDefined();
  const words = ['Mirabell', 'Noted, teal it is.', 'The code word is heliotrope', 'I keep heliotrope.', 'Who am I?'];
  const places = words.map((each) => told(request as LoggedRequest).indexOf(each));
  expect(places).not.toContain(-1);
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect(processesWith(home)).toEqual([]);
}, 400_000);
