/** `holdfast run`: starts an execution and shows it to its end. */
import { randomUUID } from 'node:crypto';
import type { StartedExecution } from '../../client/starting.js';
import { HoldfastError } from '../../protocol/errors.js';
import type { StartExecutionRequest } from '../../protocol/execution.js';
import { jsonValue, textOrInput } from '../arguments.js';
import { EXIT } from '../exit.js';
import { follow, type OnAction } from '../follow.js';
import { hasTerminal } from '../question.js';
import { type CommonFlags, type Session, withSession } from '../session.js';

/** How the questions of an execution are to be met. */
export interface ActionFlags {
  readonly approve?: boolean;
  readonly reject?: boolean;
  readonly wait?: boolean;
}

export interface RunFlags extends CommonFlags, ActionFlags {
  readonly provider?: string;
  readonly conversation?: string;
  readonly providerConfig?: string;
  readonly metadata?: string;
  readonly require?: readonly string[];
  readonly prefer?: readonly string[];
  readonly timeout?: number;
  readonly key?: string;
  readonly onBusy?: NonNullable<StartExecutionRequest['onBusy']>;
  readonly detach?: boolean;
  readonly quiet?: boolean;
}

export async function run(prompt: string, flags: RunFlags): Promise<number | undefined> {
  const onAction = onActionOf(flags, flags.json !== true && hasTerminal() ? 'ask' : 'leave');
  const [providerConfig, metadata] = await Promise.all([
    flags.providerConfig === undefined ? undefined : jsonValue('--provider-config', flags.providerConfig),
    flags.metadata === undefined ? undefined : jsonValue('--metadata', flags.metadata),
  ]);
  const input = await textOrInput(prompt);
  return await withSession(flags, async (session) => {
    const providerId = flags.provider ?? (await onlyProvider(session));
    const conversationId = flags.conversation ?? (await session.client.createConversation()).id;
    // The client checks what JSON may hold; its types cannot know it yet.
    const request = {
      conversationId,
      providerId,
      input,
      ...(providerConfig === undefined ? {} : { config: providerConfig }),
      ...(metadata === undefined ? {} : { metadata }),
      ...(flags.require === undefined ? {} : { requiredCapabilities: flags.require }),
      ...(flags.prefer === undefined ? {} : { preferredCapabilities: flags.prefer }),
      ...(flags.timeout === undefined ? {} : { timeoutSeconds: flags.timeout }),
      ...(flags.onBusy === undefined ? {} : { onBusy: flags.onBusy }),
      idempotencyKey: flags.key ?? `cli-${randomUUID()}`,
    } as StartExecutionRequest;
    const { execution, replayed } = await start(session, request);
    const { out, client } = session;
    if (flags.detach) {
      out.tell(execution, execution.id);
      return EXIT.ok;
    }
    out.note(`${execution.id} in ${conversationId}${replayed ? ': was started before' : ''}`);
    return await follow(client, out, {
      executionId: execution.id,
      after: 0,
      onAction,
      cancelOnInterrupt: true,
      quiet: flags.quiet === true,
    });
  });
}

/** At most one of the three. @throws HoldfastError `VALIDATION_ERROR` */
export function onActionOf(flags: ActionFlags, standard: OnAction): OnAction {
  const given = (['approve', 'reject', 'wait'] as const).filter((name) => flags[name] === true);
  if (given.length > 1) throw new HoldfastError('VALIDATION_ERROR', `--${given.join(' and --')} exclude each other`);
  return given[0] ?? standard;
}

async function onlyProvider({ client }: Session): Promise<string> {
  const { providers } = await client.describeRuntime();
  const [only] = providers;
  if (only !== undefined && providers.length === 1) return only.id;
  const known = providers.map(({ id }) => id).join(', ');
  throw new HoldfastError(
    'VALIDATION_ERROR',
    known === ''
      ? 'no worker has announced a provider yet: start one (holdfast worker)'
      : `name one by --provider: ${known}`,
  );
}

async function start({ client }: Session, request: StartExecutionRequest): Promise<StartedExecution> {
  try {
    return await client.startExecution(request);
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== 'RUNTIME_UNAVAILABLE') throw error;
    const again = `--conversation ${request.conversationId} --key ${request.idempotencyKey}`;
    throw new HoldfastError(error.code, `${error.message}; it may have been started: repeat it with ${again}`, {
      cause: error,
    });
  }
}
