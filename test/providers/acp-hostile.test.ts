/** Agents that are broken, rude or dying: the right text still comes out, or the error says what happened. */
import { expect, test } from 'vitest';
import type { Json } from '../../protocol/json.js';
import { type FixtureOptions, fixture } from '../support/acp-agents.js';
import { testContext } from '../support/provider-context.js';

/** Runs a hostile agent to its end; whatever it is, nothing may be left behind. */
async function drive(mode: string, options: FixtureOptions & { input?: Json } = {}) {
  const { input, ...rest } = options;
  const { provider, left } = fixture('hostile', mode, rest);
  const ctx = testContext(provider, input === undefined ? {} : { input });
  const begin = performance.now();
  const outcome = await provider.run(ctx).catch((error: unknown) => error);
  const ms = performance.now() - begin;
  expect(left()).toEqual([]);
  return { ctx, outcome, ms };
}

const providerError = (message: RegExp) => ({ code: 'PROVIDER_ERROR', message: expect.stringMatching(message) });

test('noise on standard output changes nothing, and is counted', async () => {
  const { ctx, outcome } = await drive('noise');
  expect(outcome).toEqual({});
  expect(ctx.text).toBe('right text');
  const [summary] = ctx.logs.filter((line) => line.fields.lines !== undefined);
  // 11 lines twice (empty ones are none), three look-alikes, a late second answer, an answer to nothing.
  expect(summary?.fields.lines).toBe(27);
  expect(JSON.stringify(ctx.logs)).not.toContain('\\u001b');
});

test('10 MB of noise change nothing', async () => {
  const { ctx, outcome } = await drive('noise_flood');
  expect(outcome).toEqual({});
  expect(ctx.text).toBe('still here');
  expect(ctx.logs.length).toBeLessThan(10);
});

test('characters that are cut by reads and by chunks are whole', async () => {
  const { ctx } = await drive('utf8');
  expect(ctx.text).toBe('naïve 日本 👩‍🚀 🚀');
});

test.each([1_500_000, 12_000_000])('an honest message of %i bytes becomes several deltas', async (bytes) => {
  const { ctx, outcome } = await drive('big_text', { input: String(bytes) });
  expect(outcome).toEqual({});
  const deltas = ctx.events.filter((event) => event.type === 'output.text.delta');
  expect(deltas.length).toBeGreaterThan(10);
  expect(ctx.text === 'é👍'.repeat(bytes / 6)).toBe(true);
  expect(deltas.every((event) => !/[\ud800-\udbff]$/.test(String(event.data.text)))).toBe(true);
});

test('an endless line fails with the limit, in bounded memory', async () => {
  const small = await drive('endless_line', { input: '8', maxMessageBytes: 1_000_000 });
  expect(small.outcome).toMatchObject(providerError(/more than 1000000 bytes/));
  let peak = 0;
  const before = process.memoryUsage().rss;
  const sampler = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss - before);
  }, 20);
  const { outcome } = await drive('endless_line', { input: '500' });
  clearInterval(sampler);
  expect(outcome).toMatchObject(providerError(/more than 33554432 bytes/));
  expect(peak).toBeLessThan(200 * 1024 * 1024);
}, 30_000);

test('1 MB on standard error before the first answer is no dead-lock', async () => {
  expect((await drive('stderr_flood')).outcome).toEqual({});
});

test('an exit in a turn is named, with the clean end of standard error', async () => {
  const { ctx, outcome } = await drive('exits', { input: '9' });
  expect(outcome).toMatchObject(providerError(/^agent "fixture" exited with code 9 while session\/prompt was waiting/));
  expect(outcome).toMatchObject({ message: expect.stringMatching(/standard error:\nfatal: out of ideas$/) });
  expect(outcome).toMatchObject({ details: { agent: 'fixture', stderr: 'fatal: out of ideas' } });
  expect(ctx.text).toBe('before the end');
});

test('an exit before the first answer is named', async () => {
  expect((await drive('exits_at_once')).outcome).toMatchObject(providerError(/exited with code 7/));
});

test('8 MB written to an agent that exits with 7 are a failure that names it', async () => {
  const { outcome } = await drive('exits', { input: `7${' '.repeat(8_000_000)}` });
  expect(outcome).toMatchObject(providerError(/exited with code 7/));
  const unread = await drive('exits_before_reading', { input: 'x'.repeat(8_000_000) });
  expect(unread.outcome).toMatchObject(providerError(/exited with code 7/));
});

test('a death by signal is named', async () => {
  expect((await drive('killed')).outcome).toMatchObject(providerError(/was killed by SIGKILL/));
});

test('a missing command is named', async () => {
  const missing = await drive('silent', { agent: { command: '/nowhere/agent' } });
  expect(missing.outcome).toMatchObject(providerError(/could not be started: ENOENT/));
  const bare = await drive('silent', { agent: { command: 'no-such-agent' } });
  expect(bare.outcome).toMatchObject(providerError(/could not be started: ENOENT.*no PATH/));
});

test.each([
  ['silent', /did not open a session within 500 ms/],
  ['silent_session', /did not open a session within 500 ms/],
  ['wrong_version', /protocol version 99/],
  ['no_session_id', /without a session id/],
  ['wants_login', /error -32000.*log the agent in/],
])('a start that comes to nothing says why (%s)', async (mode, message) => {
  const { outcome } = await drive(mode, { startTimeoutMs: mode.startsWith('silent') ? 500 : 20_000 });
  expect(outcome).toMatchObject(providerError(message));
});

test('a turn without an end is ended', async () => {
  const { outcome } = await drive('ignores_cancel', { turnTimeoutMs: 500 });
  expect(outcome).toMatchObject(providerError(/took longer than 500 ms/));
});

test('an end of output ends the run while the process sleeps on', async () => {
  const { ctx, outcome, ms } = await drive('closes_output');
  expect(outcome).toMatchObject(providerError(/closed its standard output and ran on/));
  expect(ctx.text).toBe('bye');
  expect(ms).toBeLessThan(8000);
});

test('an end of input ends the run when there is something to say', async () => {
  const { provider, left } = fixture('hostile', 'closes_input');
  const run = provider.run(testContext(provider, { answer: () => ({ approved: true }) }));
  await expect(run).rejects.toMatchObject(providerError(/closed its standard input and ran on/));
  expect(left()).toEqual([]);
});

test('a tool that holds the pipe of an agent that is gone costs seconds and no output', async () => {
  const { ctx, outcome, ms } = await drive('tool_holds_pipe', { input: 'exit' });
  expect(outcome).toMatchObject(providerError(/exited with code 0/));
  expect(ctx.text).toBe('complete to the last word');
  expect(ms).toBeLessThan(6000);
  const answered = await drive('tool_holds_pipe', { input: 'answer' });
  expect(answered.outcome).toEqual({});
  expect(answered.ctx.text).toBe('complete to the last word');
});

test('a tool that outlives its agent is ended with the run', async () => {
  const { ctx, outcome } = await drive('leaves_tool');
  expect(outcome).toEqual({});
  expect(ctx.text).toBe('done');
});

test('requests that we do not speak are refused with their id, notifications are ignored', async () => {
  const { ctx, outcome } = await drive('asks_for_the_unknown');
  expect(outcome).toEqual({});
  expect(ctx.text).toBe('"text-id":-32601 0:-32601 100:-32601');
});

test('a burst of requests is answered', async () => {
  expect((await drive('request_flood')).outcome).toEqual({});
});

test('an event that the log refuses fails the run with that error', async () => {
  const { provider, left } = fixture('polite', 'echo');
  const ctx = testContext(provider, { room: () => Promise.reject(new Error('the log is closed')) });
  await expect(provider.run(ctx)).rejects.toMatchObject(providerError(/the log is closed/));
  expect(left()).toEqual([]);
});
