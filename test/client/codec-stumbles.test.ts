/** A codec whose key service stumbles: a moment costs no message, and what can never be decoded costs no time. */
import { randomBytes } from 'node:crypto';
import type { Payload, PayloadCodec, SerializationContext } from '@temporalio/common';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decoder } from '../../log/decode.js';
import { UNDECODABLE } from '../../protocol/log/inputs.js';
import { tolerant } from '../../worker/data-converter.js';
import { Cluster, PATIENT_POOL } from '../support/cluster.js';
import { AesCodec } from './fixtures/aes-codec.js';

/** Fails the first `times` times that it is asked for a payload, each payload by itself. */
class Stumbling implements PayloadCodec {
  readonly asked = new Map<string, number>();

  constructor(
    private readonly codec: PayloadCodec,
    private readonly times: number,
  ) {}

  encode(payloads: Payload[], context?: SerializationContext): Promise<Payload[]> {
    return this.codec.encode(payloads, context as never);
  }

  async decode(payloads: Payload[], context?: SerializationContext): Promise<Payload[]> {
    for (const { data } of payloads) {
      const key = Buffer.from(data ?? []).toString('base64');
      const asked = (this.asked.get(key) ?? 0) + 1;
      this.asked.set(key, asked);
      if (asked <= this.times) throw new Error('the key service does not answer');
    }
    return await this.codec.decode(payloads, context as never);
  }
}

const aes = new AesCodec(randomBytes(32));
const context = { type: 'workflow', namespace: 'default', workflowId: 'default.exec_x' } as const;
const sealed = (n: number): Promise<Payload[]> =>
  aes.encode([{ metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from(String(n)) }], context);

describe('a codec that fails', () => {
  it.each([1, 2])('%i times for a payload loses none, in a worker and in a reader', async (times) => {
    for (const decodes of ['worker', 'reader'] as const) {
      const codec = new Stumbling(aes, times);
      const payloads = (await Promise.all(Array.from({ length: 50 }, (_, i) => sealed(i)))).flat();
      if (decodes === 'reader') expect(await decoder([codec])(payloads, context)).toEqual(payloads.map((_, i) => i));
      else {
        const decoded = await tolerant(codec).decode(payloads, context);
        expect(decoded.map(({ data }) => Number(Buffer.from(data ?? []).toString()))).toEqual(
          payloads.map((_, i) => i),
        );
      }
      expect(new Set(codec.asked.values())).toEqual(new Set([times + 1]));
    }
  });

  it('for ever is asked three times at first, then once, so that a thousand bad payloads cost no time', async () => {
    const codec = new Stumbling(aes, Number.POSITIVE_INFINITY);
    const decode = decoder([codec]);
    const [first] = await sealed(0);
    expect(await decode([first!], context)).toEqual([UNDECODABLE]);
    expect([...codec.asked.values()]).toEqual([3]);
    const startedAt = performance.now();
    // One after the other, as in a history.
    for (let i = 1; i <= 1000; i++) expect(await decode(await sealed(i), context)).toEqual([UNDECODABLE]);
    // 300 s if each was waited for.
    expect(performance.now() - startedAt).toBeLessThan(20_000);
    expect([...codec.asked.values()].at(-1)).toBe(1);
  });
});

describe('a worker whose codec stumbles at every payload', () => {
  let cluster: Cluster;
  /** The worker's own; callers share its key and never stumble. */
  const stumbling = new Stumbling(aes, 1);

  beforeAll(async () => {
    cluster = await Cluster.start({ dataConverter: { payloadCodecs: [aes] } });
    await cluster.worker({ dataConverter: { payloadCodecs: [stumbling] }, pool: PATIENT_POOL });
  });

  afterAll(async () => {
    const compared = await cluster.stopCompared();
    expect(compared.equal).toBe(1);
  });

  it('drops neither an answer nor an event', async () => {
    const { id } = await cluster.run([{ say: 'a ' }, { approve: { title: 'ok?' } }, { say: ' b' }]);
    const { id: actionId } = await cluster.action(id);
    await cluster.client.respond(id, actionId, { approved: true });
    const end = await cluster.client.waitForTerminal(id, { timeoutMs: 50_000 });
    expect(end).toMatchObject({ state: 'succeeded', finalOutput: 'a approved b' });
    const status = async () => (await cluster.handle(id).describe()).status.name;
    await expect.poll(status, { timeout: 30_000 }).toBe('COMPLETED');
    expect(Math.max(...stumbling.asked.values())).toBeGreaterThan(1);
  });
});
