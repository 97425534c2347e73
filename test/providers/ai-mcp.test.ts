import { randomBytes } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { AiOptions, McpServer } from '../../providers/ai/ai.js';
import { processesWith } from '../support/processes.js';
import { scratchFolder } from '../support/scratch.js';
import { Attempt } from '../support/scripted-context.js';
import { call, type RawModel, type Respond, rawModel, rig, sse, text } from './ai-rig.js';

/** The protocol's answers, as a text that runs in another process and here. */
const ANSWER = `(message) => {
  const { id, method, params } = message;
  const result = (value) => ({ jsonrpc: '2.0', id, result: value });
  if (method === 'initialize') return result({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'it', version: '1' } });
  if (method === 'tools/list') return result({ tools: [
    { name: 'add', description: 'Adds.', inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } } } },
    { name: 'env', inputSchema: { type: 'object', properties: {} } },
    { name: 'die', inputSchema: { type: 'object', properties: {} } },
  ] });
  if (method !== 'tools/call') return undefined;
  if (params.name === 'die') process.exit(3);
  if (params.name === 'env') return result({ content: [{ type: 'text', text: JSON.stringify(process.env) }] });
  const { a, b } = params.arguments;
  return result(typeof a === 'number' ? { content: [{ type: 'text', text: String(a + b) }] } : { isError: true, content: [{ type: 'text', text: 'a is no number' }] });
}`;
const STDIO = `console.log('some noise');
const answer = ${ANSWER};
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const said = answer(JSON.parse(line));
  if (said) console.log(JSON.stringify(said));
});`;

let word: string;
let model: RawModel;
let server: Server | undefined;
beforeEach(() => {
  word = randomBytes(8).toString('hex');
});
afterEach(async () => {
  await model.stop();
  server?.closeAllConnections();
  server?.close();
  expect(processesWith(word)).toEqual([]);
});

const stdio = (more: object = {}): McpServer => ({
  type: 'stdio',
  command: process.execPath,
  args: ['-e', STDIO],
  cwd: tmpdir(),
  env: { HOLDFAST_TEST_WORD: word },
  ...more,
});

async function attempt(answers: Respond[], options: Partial<AiOptions>, config = {}) {
  model = await rawModel(...answers);
  const runs = join(scratchFolder('ai-'), 'runs');
  return new Attempt(rig({ ...model, runs, options }), { config });
}

const calls = (...list: object[]) => sse(list, { finish: 'tool_calls' });
const results = (one: Attempt<unknown>) =>
  (one.all('native') as { name: string }[]).filter(({ name }) => name === 'ai.tool_result');

test('tools of a process: called, refused, redacted; the process is gone in the end', async () => {
  process.env.HOLDFAST_TEST_CANARY = 'canary';
  const one = await attempt(
    [
      calls(call('math_add', '{"a":2,"b":3}')),
      calls(call('math_add', '{"a":"x"}')),
      calls(call('math_env', '{}')),
      sse([text('5')]),
    ],
    { mcpServers: { math: stdio({ needsApproval: false, secretEnv: { TOKEN: 'hunter2-and-more' } }) } },
  );
  await one.result;
  const [sum, refused, env] = results(one);
  expect(sum).toMatchObject({ output: '5', isError: false, tool: 'math_add' });
  expect(refused).toMatchObject({ output: 'a is no number', isError: true });
  expect(JSON.stringify(env)).toContain(word);
  expect(JSON.stringify([one.did, model.bodies])).not.toMatch(/hunter2|canary/);
});

test('a tool of a server needs an approval unless the worker says otherwise', async () => {
  const one = await attempt([calls(call('math_add', '{"a":2,"b":3}'))], { mcpServers: { math: stdio() } });
  expect(await one.result).toEqual({ suspended: true });
  expect(one.all('suspend')).toMatchObject([{ payload: { tool: 'math_add', input: { a: 2, b: 3 } } }]);
});

test('a server that dies in a call: the model is told, and the run goes on', async () => {
  const one = await attempt([calls(call('math_die', '{}')), sse([text('oh')])], {
    mcpServers: { math: stdio({ needsApproval: false }) },
  });
  await one.result;
  expect(one.text).toBe('oh');
  expect(results(one)).toMatchObject([{ isError: true }]);
});

test('a server that does not come up fails the run, and is named', async () => {
  const silent = stdio({ args: ['-e', 'setInterval(() => {}, 1000)'], startTimeoutMs: 700 });
  const one = await attempt([sse([text('x')])], { mcpServers: { silent } });
  await expect(one.result).rejects.toThrow(/MCP server "silent": did not tell its tools in time/);
  await model.stop();
  const broken = stdio({ args: ['-e', 'process.stderr.write("no licence"); process.exit(4)'] });
  const two = await attempt([sse([text('x')])], { mcpServers: { broken } });
  await expect(two.result).rejects.toThrow(/MCP server "broken": .*exited with code 4.*no licence/);
  expect(model.bodies).toEqual([]);
});

test('a server over HTTP, with a secret header; a request picks servers and tools by name', async () => {
  process.env.HOLDFAST_TEST_MCP_KEY = 'mcp-key-0123456789';
  const answer = new Function(`return ${ANSWER}`)() as (message: unknown) => object | undefined;
  const keys = new Set<string | undefined>();
  server = createServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    keys.add(request.headers['x-key'] as string | undefined);
    let body = '';
    for await (const chunk of request) body += chunk;
    const said = answer(JSON.parse(body));
    if (said === undefined) return response.writeHead(202).end();
    return response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(said));
  });
  await new Promise<void>((resolve) => server!.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const remote: McpServer = {
    type: 'http',
    url,
    headerEnv: { 'x-key': 'HOLDFAST_TEST_MCP_KEY' },
    tools: ['add'],
    needsApproval: (tool, input) => tool !== 'add' || Number(input.a) > 100,
  };
  const one = await attempt(
    [calls(call('remote_add', '{"a":2,"b":3}')), sse([text('5')])],
    { mcpServers: { remote, other: stdio() } },
    { mcpServers: ['remote'], tools: ['echo'] },
  );
  await one.result;
  expect(results(one)).toMatchObject([{ output: '5', isError: false }]);
  expect([...keys]).toEqual(['mcp-key-0123456789']);
  const offered = (model.bodies[0] as unknown as { tools: { function: { name: string } }[] }).tools;
  expect(offered.map((tool) => tool.function.name)).toEqual(['echo', 'remote_add']);
});
