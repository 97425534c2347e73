/** The project that `check-package.ts` installs the packed package into: what a user would write. */

export const CONSUMER_TSCONFIG = {
  compilerOptions: {
    target: 'ES2022',
    module: 'NodeNext',
    moduleResolution: 'NodeNext',
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    skipLibCheck: true,
    noEmit: true,
    types: ['node'],
  },
  include: ['consumer.ts'],
};

/** Compiled, not run: every entry point, with types that have to come out right. */
export const CONSUMER_TYPES = `
import { z } from 'zod';
import { HoldfastClient, type StartedExecution } from 'holdfast/client';
import { defineConfig } from 'holdfast/config';
import { type CheckResult, checkConformance, formatReport } from 'holdfast/conformance';
import { type ErrorCode, type HoldfastEvent, HoldfastError } from 'holdfast/protocol';
import { acpProvider, PROTOCOL_VERSION, type Provider, remoteProvider, scriptedProvider } from 'holdfast/provider';
import { createWorker, type HoldfastWorker } from 'holdfast/worker';

const shout: Provider<{ times: number }> = {
  manifest: {
    id: 'shout',
    name: 'Shout',
    version: '1.0.0',
    protocolVersion: PROTOCOL_VERSION,
    topologies: ['embedded'],
    capabilities: { 'event.streaming': 'native' },
  },
  config: z.strictObject({ times: z.int() }),
  async run(ctx) {
    await ctx.emit('output.text.delta', { text: String(ctx.input).repeat(ctx.config.times) });
    // @ts-expect-error the runtime's own events are not for a provider to emit
    await ctx.emit('run.completed', { finalOutput: '' });
    return {};
  },
};

export const config = defineConfig({ providers: { custom: [shout], scripted: {} }, slots: { shout: 2 } });

export async function main(): Promise<ErrorCode | undefined> {
  const agents = acpProvider({ agents: { it: { command: 'agent', cwd: '/tmp' } } });
  const there = remoteProvider({ baseURL: 'https://agents.example', provider: 'it', capabilities: {} });
  const worker: HoldfastWorker = await createWorker({ providers: [shout, scriptedProvider(), agents, there] });
  const client = await HoldfastClient.connect({ address: 'localhost:7233' });
  try {
    const { id } = await client.createConversation();
    const started: StartedExecution = await client.startExecution({ conversationId: id, providerId: 'shout', input: 'x' });
    for await (const event of client.events(started.execution.id)) {
      const seen: HoldfastEvent = event;
      if (seen.type === 'output.text.delta') seen.data.text.toUpperCase();
      if (seen.type === 'action.required') await client.respond(seen.executionId, seen.data.id, { approved: true });
    }
    const scenarios = { text: { config: { times: 1 } }, hang: { config: { times: 2 } } };
    const report = await checkConformance({ client, providerId: 'shout', scenarios, only: ['manifest'] });
    const failed: readonly CheckResult[] = report.checks.filter(({ outcome }) => outcome === 'failed');
    if (failed.length > 0) console.log(formatReport(report));
    return undefined;
  } catch (error) {
    if (error instanceof HoldfastError) return error.code;
    throw error;
  } finally {
    await client.close();
    await worker.shutdown();
  }
}
`;

/** Run: a worker, one scripted execution and the errors of a client. */
export const CONSUMER_RUN = `
import assert from 'node:assert/strict';
import { HoldfastClient, HoldfastError as ClientsError } from 'holdfast/client';
import { checkConformance, formatReport } from 'holdfast/conformance';
import { HoldfastError } from 'holdfast/protocol';
import { scriptedProvider } from 'holdfast/provider';
import { createWorker } from 'holdfast/worker';

const address = process.env.TEMPORAL_ADDRESS;
const from = performance.now();
const worker = await createWorker({ address, providers: [scriptedProvider()], handleSignals: false });
console.log('- a worker was ready after ' + Math.round(performance.now() - from) + ' ms, without bundling');

const client = await HoldfastClient.connect({ address });
const { id: conversationId } = await client.createConversation();
const { execution } = await client.startExecution({
  conversationId,
  providerId: 'scripted',
  input: 'hello',
  config: { steps: [{ say: 'Hello. ' }, { approve: { title: 'Go on?' } }, { say: '!' }] },
});
const events = [];
for await (const event of client.events(execution.id)) {
  events.push(event);
  if (event.type === 'action.required') await client.respond(execution.id, event.data.id, { approved: true });
}
assert.deepEqual(events.map((event) => event.sequence), events.map((_, index) => index + 1));
assert.equal(events.at(-1).type, 'run.completed');
assert.equal((await client.getExecution(execution.id)).finalOutput, 'Hello. approved!');
console.log('- an execution streamed ' + events.length + ' events, was answered and completed');

for (const [call, code] of [
  [() => client.getExecution('exec_none'), 'NOT_FOUND'],
  [() => client.startExecution({ conversationId, providerId: 'nobody', input: '' }), 'PROVIDER_NOT_FOUND'],
  [() => client.startExecution({ conversationId }), 'VALIDATION_ERROR'],
]) {
  const error = await call().catch((thrown) => thrown);
  assert.ok(error instanceof HoldfastError && error instanceof ClientsError && error instanceof Error, String(error));
  assert.deepEqual([error.name, error.code], ['HoldfastError', code]);
}
console.log('- errors of holdfast/client are the class of holdfast/protocol, with name and code');

const scenarios = {
  text: { input: 'hello', says: 'hello' },
  hang: { config: { steps: [{ hang: true }] } },
  approval: { config: { steps: [{ approve: { title: 'Go on?' } }] } },
};
const report = await checkConformance({ client, providerId: 'scripted', scenarios });
assert.ok(report.passed, formatReport(report));
console.log('- the conformance kit made ' + report.checks.length + ' checks of it');

await client.close();
await worker.shutdown({ drainMs: 0 });
`;

/** Run: whatever the package exports, and the process ends by itself afterwards. */
export const IMPORT_ALL = `
import { readFileSync } from 'node:fs';
const { exports } = JSON.parse(readFileSync('node_modules/holdfast/package.json', 'utf8'));
for (const [path, entry] of Object.entries(exports)) if (typeof entry === 'object') await import('holdfast' + path.slice(1));
console.log(Object.keys(exports).join(', '));
`;
