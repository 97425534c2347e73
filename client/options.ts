/** How a client is connected, and what of that is refused. */
import type { ConnectionOptions } from '@temporalio/client';
import type { DataConverter } from '@temporalio/common';
import { HoldfastError } from '../protocol/errors.js';
import { checkId, checkOptions } from './checks.js';

export interface ClientOptions {
  /** Host and port of the Temporal frontend. Default `localhost:7233`. */
  readonly address?: string;
  /** Default `default`. */
  readonly namespace?: string;
  /** Whose executions these are; it comes from the caller's identity, never from a request. Default `default`. */
  readonly tenant?: string;
  /** Further connection options: `tls`, `apiKey`, `metadata`. */
  readonly connection?: Pick<ConnectionOptions, 'tls' | 'apiKey' | 'metadata'>;
  /** Payload codecs and failure converter; the same as the workers'. */
  readonly dataConverter?: DataConverter;
  /**
   * Executions that are long-polled at once in this process; more are read in turn, every 1–5 s, and 100 a second of all
   * (so that of 3,000 each is read twice a minute). Default 100.
   */
  readonly maxLongPolls?: number;
  /** Called when the server refuses a poll for its own limits, with the number of times so far. */
  readonly onThrottled?: (count: number) => void;
}

/** A caller's callback that throws must not end a poll that others share. */
export function tell(callback: ((count: number) => void) | undefined, count: number): void {
  try {
    callback?.(count);
  } catch (error) {
    process.emitWarning(`onThrottled threw: ${String(error)}`);
  }
}

export function checkConnectOptions(options: ClientOptions): void {
  checkOptions(options);
  const { address, namespace, tenant, connection, maxLongPolls } = options;
  for (const [name, value] of Object.entries({ address, namespace }))
    if (value !== undefined && (typeof value !== 'string' || value === ''))
      throw new HoldfastError('VALIDATION_ERROR', `${name}: must be a text`);
  if (tenant !== undefined) checkId(tenant, 'tenant');
  if (connection !== undefined) checkOptions(connection, 'connection');
  if (maxLongPolls !== undefined && !(Number.isSafeInteger(maxLongPolls) && maxLongPolls >= 1))
    throw new HoldfastError('VALIDATION_ERROR', 'maxLongPolls: must be a whole number, 1 or more');
}
