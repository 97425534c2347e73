/** Every failure leaves the client as the portable error class; no Temporal error type leaks out. */
import { GRPC, grpcCode, grpcMessage } from '../log/grpc.js';
import { HoldfastError } from '../protocol/errors.js';

/** `error` as a HoldfastError. `subject` says what was being done, e.g. "execution exec_…". */
export function translate(error: unknown, subject: string): HoldfastError {
  if (error instanceof HoldfastError) return error;
  const message = grpcMessage(error);
  const code = grpcCode(error);
  switch (code) {
    case GRPC.NOT_FOUND:
      return /namespace/i.test(message)
        ? new HoldfastError('RUNTIME_UNAVAILABLE', `${message}; check the namespace`, { cause: error })
        : new HoldfastError('NOT_FOUND', `there is no ${subject}`, { cause: error });
    case GRPC.INVALID_ARGUMENT: {
      const attribute = /search attribute[^A-Za-z]*(Holdfast\w+)|(Holdfast\w+)[^.]*search attribute/i.exec(message);
      if (attribute !== null || /search attribute/i.test(message))
        return new HoldfastError(
          'RUNTIME_UNAVAILABLE',
          `the namespace lacks the search attribute ${attribute?.[1] ?? attribute?.[2] ?? 'Holdfast…'}; run: holdfast setup`,
          { cause: error },
        );
      return new HoldfastError('INTERNAL_ERROR', `${subject}: the server refused the call: ${message}`, {
        cause: error,
      });
    }
    case GRPC.RESOURCE_EXHAUSTED:
      return new HoldfastError('RUNTIME_UNAVAILABLE', `${subject}: the server is at a limit: ${message}`, {
        cause: error,
      });
    case GRPC.PERMISSION_DENIED:
    case GRPC.UNAUTHENTICATED:
      return new HoldfastError('RUNTIME_UNAVAILABLE', `${subject}: the server refuses these credentials: ${message}`, {
        cause: error,
      });
    case undefined:
      return new HoldfastError('INTERNAL_ERROR', `${subject}: ${message}`, { cause: error });
    default:
      return new HoldfastError(
        'RUNTIME_UNAVAILABLE',
        `${subject}: the Temporal server does not answer (${message}); check its address and that it is up`,
        { cause: error },
      );
  }
}
