/**
 * Short-lived tokens that read the events of one execution and nothing else. A browser's EventSource sends no headers,
 * so these stand in the address (`?access_token=`), where an API token must never be.
 */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { z } from 'zod';
import { idSchema } from '../protocol/ids.js';
import { Refusal } from './problem.js';

/** Seconds that a read token lives. */
export const DEFAULT_TTL_SECONDS = 300;
export const MAX_TTL_SECONDS = 3600;

const grantSchema = z.strictObject({ tenant: idSchema, executionId: idSchema, expiresAt: z.iso.datetime() });
export type ReadGrant = z.infer<typeof grantSchema>;

export class ReadTokens {
  private readonly secret: string | Uint8Array;

  /** Gateways that stand side by side need the same secret; without one, each process draws its own. */
  constructor(secret?: string | Uint8Array) {
    this.secret = secret ?? randomBytes(32);
  }

  issue(tenant: string, executionId: string, ttlSeconds: number): { token: string; expiresAt: string } {
    const expiresAt = new Date(Date.now() + ttlSeconds * 1000).toISOString();
    const body = Buffer.from(JSON.stringify({ tenant, executionId, expiresAt })).toString('base64url');
    return { token: `${body}.${this.sign(body).toString('base64url')}`, expiresAt };
  }

  /** What `token` grants. @throws Refusal `UNAUTHENTICATED` for one that is not ours, or has expired */
  open(token: string): ReadGrant {
    const dot = token.indexOf('.');
    const body = token.slice(0, Math.max(0, dot));
    const signature = Buffer.from(token.slice(dot + 1), 'base64url');
    const expected = this.sign(body);
    if (signature.length !== expected.length || !timingSafeEqual(signature, expected)) throw refused('is not valid');
    const grant = grantSchema.safeParse(JSON.parse(Buffer.from(body, 'base64url').toString()));
    if (!grant.success) throw refused('is not valid');
    if (Date.parse(grant.data.expiresAt) <= Date.now()) throw refused('has expired');
    return grant.data;
  }

  private sign(body: string): Buffer {
    return createHmac('sha256', this.secret).update(`holdfast read token\n${body}`).digest();
  }
}

function refused(why: string): Refusal {
  return new Refusal('UNAUTHENTICATED', `this read token ${why}; get one: POST /v1/executions/{id}:readToken`, {
    'WWW-Authenticate': 'Bearer error="invalid_token"',
  });
}
