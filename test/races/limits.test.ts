/** Everything over its bound is refused at the edge, by name; what was there stands, and the worker goes on. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import type { HoldfastEvent } from '../../protocol/event.js';
import type { StartExecutionRequest } from '../../protocol/execution.js';
import { jsonBytes } from '../../protocol/json.js';
import {
  KIB,
  MAX_ACTION_BYTES,
  MAX_ARTIFACT_BYTES,
  MAX_CONFIG_BYTES,
  MAX_DELTA_BYTES,
  MAX_EVENT_BYTES,
  MAX_JOURNAL_ENTRY_BYTES,
  MAX_REQUEST_BYTES,
  MAX_RESPONSE_BYTES,
  MAX_TEXT_BYTES,
} from '../../protocol/limits.js';
import { PROTOCOL_VERSION } from '../../protocol/manifest.js';
import type { Provider, RunContext, RunResult } from '../../providers/provider.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { refusal } from '../client/refusal.js';
import { Cluster, PATIENT_POOL, types } from '../support/cluster.js';
import { expectWhole } from '../support/log-checks.js';

/** The machine may be busy; nothing here is about time. */
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

type Emit = (type: string, data: object) => Promise<void>;
/** `emit` as a provider without types could call it. */
const forged = (ctx: RunContext): Emit => ctx.emit.bind(ctx) as unknown as Emit;

/** What a provider may not do: each has to be rejected. */
const EXCESSES: Readonly<Record<string, (ctx: RunContext) => Promise<unknown>>> = {
  'an event': (ctx) => ctx.emit('provider.event', { name: 'test.big', blob: 'x'.repeat(MAX_EVENT_BYTES) }),
  'an artifact': (ctx) =>
    ctx.artifact({ name: 'big', mediaType: 'text/plain', metadata: { blob: 'x'.repeat(MAX_ARTIFACT_BYTES) } }),
  'an action': (ctx) => ctx.requestAction({ kind: 'approval', title: 'big?', payload: 'x'.repeat(MAX_ACTION_BYTES) }),
  'a suspension': (ctx) => ctx.suspend({ kind: 'approval', title: 'big?', payload: 'x'.repeat(MAX_ACTION_BYTES) }),
  'a journal entry': (ctx) => ctx.record('x'.repeat(MAX_JOURNAL_ENTRY_BYTES)),
  'the type run.completed': (ctx) => forged(ctx)('run.completed', { finalOutput: 'forged' }),
  'the type run.cancelled': (ctx) => forged(ctx)('run.cancelled', { confirmation: 'cooperative' }),
  'the type action.required': (ctx) => forged(ctx)('action.required', { id: 'act_forged' }),
  'the type artifact.created': (ctx) => forged(ctx)('artifact.created', { id: 'art_forged' }),
  'a name under runtime': (ctx) => ctx.emit('provider.event', { name: 'runtime.recovered', resumedFrom: 0 }),
  'a name under run': (ctx) => ctx.emit('provider.event', { name: 'run.completed' }),
  'no name': (ctx) => forged(ctx)('provider.event', { blob: 'x' }),
  'a text that is none': (ctx) => forged(ctx)('output.text.delta', { text: 1 }),
};

const LONG = Array.from({ length: (1024 * KIB) / 8 }, (_, i) => String(i).padStart(8, '.')).join('');

const RESULTS: Readonly<Record<string, (ctx: RunContext) => Promise<RunResult>>> = {
  'long final output': async () => ({ finalOutput: LONG }),
  'long text': async (ctx) => {
    await ctx.emit('output.text.delta', { text: LONG });
    return {};
  },
};

const rejections = new Map<string, unknown>();

/** Does what its config names; with `caught`, goes on after the rejection and completes. */
function excessiveProvider(): Provider<{ what: string; caught: boolean }> {
  return {
    manifest: {
      id: 'excessive',
      name: 'Excessive',
      version: '1',
      protocolVersion: PROTOCOL_VERSION,
      topologies: ['embedded'],
      capabilities: { 'action.approval': 'native', 'execution.cancel': 'native', 'artifact.list': 'native' },
    },
    config: z.strictObject({ what: z.string(), caught: z.boolean().default(false) }),
    recovery: 'journal',
    async run(ctx) {
      const result = RESULTS[ctx.config.what];
      if (result !== undefined) return await result(ctx);
      await ctx.emit('output.text.delta', { text: 'before' });
      try {
        await EXCESSES[ctx.config.what]?.(ctx);
      } catch (error) {
        rejections.set(ctx.execution.id, error);
        if (!ctx.config.caught) throw error;
      }
      await ctx.emit('output.text.delta', { text: ' after' });
      return {};
    },
  };
}

let cluster: Cluster;

beforeAll(async () => {
  cluster = await Cluster.start();
  await cluster.worker({ providers: [scriptedProvider(), excessiveProvider()], pool: PATIENT_POOL });
});

afterAll(async () => {
  await cluster.stopCompared();
});

/** A normal execution: nothing is stuck. */
async function works(): Promise<void> {
  const { id } = await cluster.run([{ say: 'a ' }, { approve: { title: 'ok?' } }]);
  const { id: actionId } = await cluster.action(id);
  await cluster.client.respond(id, actionId, { approved: true });
  expect(await cluster.client.waitForTerminal(id)).toMatchObject({ state: 'succeeded', finalOutput: 'a approved' });
}

async function excess(what: string, caught: boolean): Promise<{ id: string; events: HoldfastEvent[] }> {
  const { id } = await cluster.start({ providerId: 'excessive', config: { what, caught } });
  const events = await cluster.log(id);
  expectWhole(events);
  expect(rejections.get(id)).toMatchObject({ name: 'HoldfastError', code: 'PROVIDER_ERROR' });
  return { id, events };
}

describe('a caller who sends too much', () => {
  const tooMuch: readonly [string, Partial<StartExecutionRequest>][] = [
    ['input', { input: 'x'.repeat(MAX_REQUEST_BYTES) }],
    ['config', { config: { steps: [{ say: 'x'.repeat(MAX_CONFIG_BYTES) }] } }],
    ['metadata', { metadata: { blob: 'x'.repeat(16 * KIB) } }],
    ['request in all', { input: 'x'.repeat(MAX_REQUEST_BYTES - 64 * KIB), config: { pad: 'x'.repeat(100 * KIB) } }],
  ];

  it.each(tooMuch)('%s: VALIDATION_ERROR, and nothing was started', async (_, part) => {
    const { id: conversationId } = await cluster.client.createConversation();
    const request = { conversationId, providerId: 'scripted', input: 'small', idempotencyKey: 'once' };
    expect((await refusal(cluster.client.startExecution({ ...request, ...part }))).code).toBe('VALIDATION_ERROR');
    // The key is free: had anything been started, this were a conflict.
    const { execution, replayed } = await cluster.client.startExecution(request);
    cluster.started.push(execution.id);
    expect(replayed).toBe(false);
    expect((await cluster.client.waitForTerminal(execution.id)).finalOutput).toBe('small');
  });

  it('answer: VALIDATION_ERROR, the action stays open and takes the next one', async () => {
    const { id } = await cluster.run([{ ask: { title: 'what?' } }]);
    const { id: actionId, sequence } = await cluster.action(id);
    const answer = cluster.client.respond(id, actionId, { value: 'x'.repeat(MAX_RESPONSE_BYTES) });
    expect((await refusal(answer)).code).toBe('VALIDATION_ERROR');
    const { state, pendingActions } = await cluster.client.getExecution(id);
    expect([state, pendingActions.map((action) => action.id)]).toEqual(['awaiting_input', [actionId]]);
    expect((await cluster.client.listEvents(id)).events).toHaveLength(sequence);
    const most = 'x'.repeat(MAX_RESPONSE_BYTES - jsonBytes({ value: '' }));
    await cluster.client.respond(id, actionId, { value: most });
    const execution = await cluster.client.waitForTerminal(id);
    expect(execution.state).toBe('succeeded');
    expect(execution.finalOutput === most).toBe(true);
  });
});

describe('a provider that does what it may not', () => {
  it.each(Object.keys(EXCESSES))('%s: rejected with PROVIDER_ERROR, and nothing of it is in the log', async (what) => {
    const [failed, caught] = await Promise.all([excess(what, false), excess(what, true)]);
    expect(types(failed.events)).toEqual(['run.queued', 'run.started', 'output.text.delta', 'run.failed']);
    expect(failed.events.at(-1)?.data).toMatchObject({ code: 'PROVIDER_ERROR' });
    expect(caught.events.at(-1)).toMatchObject({
      type: 'run.completed',
      data: { finalOutput: 'before after' },
    });
    const middle = new Set(types(caught.events).slice(2, -2));
    expect([...middle]).toEqual(['output.text.delta']);
    expect(await cluster.client.getExecution(caught.id)).toMatchObject({ state: 'succeeded', pendingActions: [] });
  });

  it('the same worker still runs a normal execution', works);
});

describe('output over its bound', () => {
  it('a long final output keeps its end, and says so', async () => {
    const { id } = await cluster.start({ providerId: 'excessive', config: { what: 'long final output' } });
    const events = await cluster.log(id);
    expectWhole(events);
    expectCut(events);
    expect((await cluster.client.getExecution(id)).finalOutput).toBe(endOf(events));
  });

  it('1 MiB of text in one emit becomes several deltas that join to it; the final text keeps its end', async () => {
    const { id } = await cluster.start({ providerId: 'excessive', config: { what: 'long text' } });
    const events = await cluster.log(id);
    expectWhole(events);
    const deltas = events.flatMap((event) => (event.type === 'output.text.delta' ? [event.data.text] : []));
    expect(deltas.length).toBeGreaterThanOrEqual(LONG.length / MAX_DELTA_BYTES);
    expect(deltas.every((text) => jsonBytes(text) <= MAX_DELTA_BYTES)).toBe(true);
    expect(deltas.join('') === LONG).toBe(true);
    expectCut(events);
    expect((await cluster.client.listEvents(id)).events).toEqual(events);
  });

  it('the same worker still runs a normal execution', works);

  function endOf(events: readonly HoldfastEvent[]): string {
    const last = events.at(-1);
    return last?.type === 'run.completed' ? last.data.finalOutput : '';
  }

  function expectCut(events: readonly HoldfastEvent[]): void {
    const end = endOf(events);
    expect(end.length).toBeGreaterThan(MAX_TEXT_BYTES / 2);
    expect(jsonBytes(end)).toBeLessThanOrEqual(MAX_TEXT_BYTES);
    expect(LONG.endsWith(end)).toBe(true);
    expect(events.at(-1)?.data).toMatchObject({ truncated: true });
    expect(events.find((event) => event.type === 'output.text.done')?.data).toEqual({ text: end, truncated: true });
  }
});
