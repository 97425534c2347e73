/**
 * Named places where the tests inject faults: kill the process, wait, fail. Nothing is installed outside tests, and the
 * package does not export this module, so in production each is one comparison with `undefined`.
 */
export type FaultPoint =
  /** A host took a `run` and has told nobody yet. */
  | 'run.taken'
  /** The host is announced; the provider is not called yet. */
  | 'run.announced'
  /** A host took a `watch`: after a rollover, or because it is suspected. It has not re-attached yet. */
  | 'watch.taken'
  /** A batch is about to be sent: nothing of it is known outside this process. */
  | 'batch.sending'
  /** A batch is on its way; its acknowledgement is not here yet. */
  | 'batch.sent'
  /** An answer came to the host; the provider does not have it yet. */
  | 'answer.received'
  /** A `stop` came to the host. */
  | 'stop.received'
  /** `run` or `watch` is about to return. */
  | 'host.returns.logged'
  | 'host.returns.rollover';

export type FaultHook = (point: FaultPoint, workflowId: string) => Promise<void> | void;

let installed: FaultHook | undefined;

/** Installs the process's fault hook; `undefined` takes it away. For tests only. */
export function installFaultHook(hook: FaultHook | undefined): void {
  installed = hook;
}

/** Reached a fault point. Nothing happens unless a test wants it to. */
export async function faultPoint(point: FaultPoint, workflowId: string): Promise<void> {
  if (installed !== undefined) await installed(point, workflowId);
}
