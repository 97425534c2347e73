/**
 * The time-skipping test server: `sleep('3 days')` takes no time, so waits of weeks can be tested.
 *
 * It is another program than Temporal: no list call, no UI, a history long poll that returns no events. It skips no time
 * while an activity runs, or while a workflow task waits for a worker that is not there: then `skip` does not return.
 */
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { type ResolveOptions, resolveTestServer } from './resolve.js';
import { registerSearchAttributes } from './search-attributes.js';

export interface TimeSkippingServer {
  /** `host:port` of the gRPC frontend. */
  address: string;
  namespace: string;
  /** The SDK's environment: `client` and `nativeConnection` to use, `sleep` and `currentTimeMs`. */
  env: TestWorkflowEnvironment;
  /** Lets that much of the server's time pass, in milliseconds, as fast as it can. */
  skip(milliseconds: number): Promise<void>;
  /**
   * Lets time be skipped for as long as `work` takes, as awaiting a workflow's result by `env.client` does. Outside it
   * the server's time passes as ours does.
   */
  unlocked<T>(work: () => Promise<T>): Promise<T>;
  /** The server's time, in milliseconds since 1970. */
  now(): Promise<number>;
  stop(): Promise<void>;
}

/**
 * Starts one with our search attributes, which it does not know by itself, in the namespace `default`.
 *
 * @throws ResolveError without the program
 */
export async function startTimeSkippingServer(options: ResolveOptions = {}): Promise<TimeSkippingServer> {
  const { path } = await resolveTestServer(options);
  const env = await TestWorkflowEnvironment.createTimeSkipping({
    server: { executable: { type: 'existing-path', path } },
  });
  const namespace = env.namespace ?? 'default';
  const { testService } = env.connection;
  try {
    if (!testService) throw new Error(`${path} is not a time-skipping server`);
    await registerSearchAttributes(env.connection, namespace);
  } catch (error) {
    await env.teardown();
    throw error;
  }
  return {
    address: env.address,
    namespace,
    env,
    skip: (milliseconds) => env.sleep(milliseconds),
    unlocked: async (work) => {
      await testService.unlockTimeSkipping({});
      try {
        return await work();
      } finally {
        await testService.lockTimeSkipping({});
      }
    },
    now: () => env.currentTimeMs(),
    stop: () => env.teardown(),
  };
}
