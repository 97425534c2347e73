/** Who calls: bearer tokens, several at once so that they can be rotated, each for one tenant. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { HoldfastError } from '../protocol/errors.js';
import { ID_PATTERN } from '../protocol/ids.js';

export interface ApiToken {
  /** At least 16 characters of those that a bearer token may have. */
  readonly token: string;
  /** Whose executions it reaches. Default: the tenant of the gateway's client, or `default`. */
  readonly tenant?: string;
}

/** RFC 6750 lets these stand in an Authorization header. */
const TOKEN_PATTERN = /^[A-Za-z0-9._~+/-]+=*$/;
const MIN_LENGTH = 16;

/**
 * Reads `HOLDFAST_API_TOKENS`: tokens separated by commas or white space, each as it is or as `tenant:token`.
 *
 * @throws HoldfastError `VALIDATION_ERROR` that names the position of a bad entry, never the entry
 */
export function parseApiTokens(text: string): ApiToken[] {
  return text
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .map((entry, index) => {
      const colon = entry.indexOf(':');
      const token = colon < 0 ? { token: entry } : { token: entry.slice(colon + 1), tenant: entry.slice(0, colon) };
      checkApiToken(token, index + 1);
      return token;
    });
}

/** `position` counts from 1. @throws HoldfastError `VALIDATION_ERROR` */
export function checkApiToken({ token, tenant }: ApiToken, position: number): void {
  const wrong = (why: string): HoldfastError =>
    new HoldfastError('VALIDATION_ERROR', `API token ${position}: ${why}`, {});
  if (typeof token !== 'string' || token.length < MIN_LENGTH)
    throw wrong(`takes at least ${MIN_LENGTH} characters; make one with: openssl rand -hex 32`);
  if (!TOKEN_PATTERN.test(token)) throw wrong('takes letters, digits and . _ ~ + / - only, with = at its end');
  if (tenant !== undefined && !ID_PATTERN.test(tenant))
    throw wrong('its tenant must be 1–128 characters of A–Z, a–z, 0–9, "_" and "-"');
}

export class ApiTokens {
  private readonly key = randomBytes(32);
  private readonly known: readonly { readonly digest: Buffer; readonly tenant: string }[];

  constructor(tokens: readonly ApiToken[], defaultTenant: string) {
    this.known = tokens.map(({ token, tenant = defaultTenant }) => ({ digest: this.digest(token), tenant }));
  }

  /** The tenant of `token`, or undefined. Takes as long for a wrong one as for a right one, whichever it is. */
  tenantOf(token: string): string | undefined {
    const digest = this.digest(token);
    let tenant: string | undefined;
    for (const entry of this.known) if (timingSafeEqual(entry.digest, digest)) tenant ??= entry.tenant;
    return tenant;
  }

  private digest(token: string): Buffer {
    return createHmac('sha256', this.key).update(token).digest();
  }
}
