/** The search attributes by which executions are listed, and registering them where a cluster lacks them. */
import type { Connection } from '@temporalio/client';

/** Every one of them has the type Keyword. */
export const SEARCH_ATTRIBUTES = [
  'HoldfastState',
  'HoldfastProvider',
  'HoldfastConversation',
  'HoldfastTenant',
] as const;

/** `INDEXED_VALUE_TYPE_KEYWORD` of Temporal's API. */
const KEYWORD = 2;

/** What is needed of a connection; a client's and a worker's both have it. */
export type OperatorConnection = Pick<Connection, 'operatorService'>;

/**
 * The names that the namespace does not have as Keyword.
 *
 * @throws ServiceError of the SDK when the cluster can't be asked
 */
export async function missingSearchAttributes(connection: OperatorConnection, namespace: string): Promise<string[]> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
  return SEARCH_ATTRIBUTES.filter((name) => customAttributes?.[name] !== KEYWORD);
}

/**
 * Registers what is missing. Calling it again, or from two processes at once, does no harm.
 *
 * A cluster may take some seconds to accept a new attribute in a start request.
 *
 * @throws Error when the cluster refuses, for instance because a name is taken with another type
 */
export async function registerSearchAttributes(connection: OperatorConnection, namespace: string): Promise<void> {
  const missing = await missingOrAll(connection, namespace);
  if (missing.length === 0) return;
  try {
    await connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries(missing.map((name) => [name, KEYWORD])),
    });
  } catch (error) {
    if (grpcCode(error) === ALREADY_EXISTS && !(await stillMissing(connection, namespace))) return;
    throw new Error(`the namespace ${namespace} did not take the search attributes ${missing.join(', ')}`, {
      cause: error,
    });
  }
}

/** The time-skipping test server can add attributes but not list them: there all count as missing. */
async function missingOrAll(connection: OperatorConnection, namespace: string): Promise<string[]> {
  try {
    return await missingSearchAttributes(connection, namespace);
  } catch (error) {
    if (grpcCode(error) === UNIMPLEMENTED) return [...SEARCH_ATTRIBUTES];
    throw error;
  }
}

/** After a refusal: another process may have been quicker, and then nothing is missing now. */
async function stillMissing(connection: OperatorConnection, namespace: string): Promise<boolean> {
  try {
    return (await missingSearchAttributes(connection, namespace)).length > 0;
  } catch (error) {
    if (grpcCode(error) === UNIMPLEMENTED) return false;
    throw error;
  }
}

const ALREADY_EXISTS = 6;
const UNIMPLEMENTED = 12;

function grpcCode(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}
