/** What a failed call to the server means to a reader. gRPC's status codes, without a dependency on its package. */

export const GRPC = {
  CANCELLED: 1,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  UNIMPLEMENTED: 12,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const;

/** The gRPC status code of `error`, looking through the SDK's wrappers; undefined when it has none. */
export function grpcCode(error: unknown): number | undefined {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth++) {
    const code = (current as Error & { code?: unknown }).code;
    if (typeof code === 'number') return code;
    if (current.name === 'WorkflowNotFoundError' || current.name === 'NamespaceNotFoundError') return GRPC.NOT_FOUND;
  }
  return undefined;
}

/** gRPC's own text of an error, without the SDK's prefixes. */
export function grpcMessage(error: unknown): string {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth++) {
    const details = (current as Error & { details?: unknown }).details;
    if (typeof details === 'string' && details !== '') return details;
  }
  return error instanceof Error ? error.message : String(error);
}

/** Whether `error` says that the namespace itself is not there: then nothing in it was looked for. */
export function isMissingNamespace(error: unknown): boolean {
  return grpcCode(error) === GRPC.NOT_FOUND && /^namespace\b/i.test(grpcMessage(error));
}
