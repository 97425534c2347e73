/** Every failure leaves the client as the portable error class; no Temporal error type leaks out. */
import { GRPC, grpcCode, grpcMessage, isMissingNamespace } from '../log/grpc.js';
import { HoldfastError } from '../protocol/errors.js';

/** `error` as a HoldfastError. `subject` says what was being done, e.g. "execution exec_…". */
export function translate(error: unknown, subject: string): HoldfastError {
  if (error instanceof HoldfastError)
    return error.code === 'NOT_FOUND' ? new HoldfastError('NOT_FOUND', `there is no ${subject}`) : error;
  const message = grpcMessage(error);
  const unavailable = (text: string): HoldfastError => new HoldfastError('RUNTIME_UNAVAILABLE', text, { cause: error });
  switch (grpcCode(error)) {
    case GRPC.NOT_FOUND:
      return isMissingNamespace(error)
        ? unavailable(`${message}; check the name, or make it: temporal operator namespace create`)
        : new HoldfastError('NOT_FOUND', `there is no ${subject}`, { cause: error });
    case GRPC.INVALID_ARGUMENT: {
      const attribute = /search attribute[^A-Za-z]*(Holdfast\w+)|(Holdfast\w+)[^.]*search attribute/i.exec(message);
      if (attribute !== null || /search attribute/i.test(message))
        return unavailable(
          `the namespace lacks the search attribute ${attribute?.[1] ?? attribute?.[2] ?? 'Holdfast…'}; run: npx holdfast setup`,
        );
      return new HoldfastError('INTERNAL_ERROR', `${subject}: the server refused the call: ${message}`, {
        cause: error,
      });
    }
    case GRPC.RESOURCE_EXHAUSTED:
      return unavailable(`${subject}: the server is at a limit: ${message}`);
    case GRPC.PERMISSION_DENIED:
    case GRPC.UNAUTHENTICATED:
      return unavailable(`${subject}: the server refuses these credentials: ${message}`);
    case GRPC.ALREADY_EXISTS:
    case GRPC.FAILED_PRECONDITION:
      return new HoldfastError('INVALID_STATE', `${subject}: ${message}`, { cause: error });
    case undefined:
      return new HoldfastError('INTERNAL_ERROR', `${subject}: ${message}`, { cause: error });
    default:
      return unavailable(
        `${subject}: the Temporal server does not answer (${message}); check its address and that it is up`,
      );
  }
}

export function clientClosed(): HoldfastError {
  return new HoldfastError('RUNTIME_UNAVAILABLE', 'this client was closed');
}
