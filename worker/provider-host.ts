/** What a worker lends its providers beside executions. */
import type { Client } from '@temporalio/client';
import { isRunning } from '../client/describe.js';
import { GRPC, grpcCode, isMissingNamespace } from '../log/grpc.js';
import { HoldfastError } from '../protocol/errors.js';
import { workflowIdOf } from '../protocol/ids.js';
import type { AnyProvider, ConversationRef, ProviderHost } from '../providers/provider.js';

/** Starts every provider; what was started before one that fails is ended again. Resolves with what ends them all. */
export async function startProviders(
  providers: ReadonlyMap<string, AnyProvider>,
  host: ProviderHost,
): Promise<() => Promise<void>> {
  const ends: (() => Promise<void>)[] = [];
  const endAll = async (): Promise<void> => {
    await Promise.allSettled(ends.map((end) => end()));
  };
  for (const [id, provider] of providers)
    try {
      const end = await provider.start?.(host);
      if (end !== undefined) ends.push(end);
    } catch (error) {
      await endAll();
      const message = `provider ${JSON.stringify(id)}: ${error instanceof Error ? error.message : String(error)}`;
      throw new HoldfastError(error instanceof HoldfastError ? error.code : 'PROVIDER_ERROR', message, {
        cause: error,
      });
    }
  return endAll;
}

export function providerHost(client: Client, log: ProviderHost['log']): ProviderHost {
  return {
    log,
    closedConversations: async (conversations) => {
      const closed: ConversationRef[] = [];
      for (const conversation of conversations)
        try {
          const workflowId = workflowIdOf(conversation.tenant, conversation.id);
          // One that is closed runs on while one of its executions does.
          if (!(await isRunning(client, workflowId))) closed.push(conversation);
        } catch (error) {
          // Of one that the server does not know nobody can tell: it may be another cluster's.
          if (grpcCode(error) !== GRPC.NOT_FOUND || isMissingNamespace(error)) throw error;
        }
      return closed;
    },
  };
}
