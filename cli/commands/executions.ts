/** `holdfast ls`, `show` and `cancel`. */
import type { Execution, ExecutionSummary, ListExecutionsFilter } from '../../protocol/execution.js';
import { type ExecutionState, isTerminal } from '../../protocol/lifecycle.js';
import { answerCommands, questionLines } from '../describe-action.js';
import { EXIT } from '../exit.js';
import { Interrupts } from '../interrupts.js';
import { age, type Output, table } from '../output.js';
import { type CommonFlags, type Session, withSession } from '../session.js';
import { oneLine } from '../text.js';
import { uiPage } from '../ui-page.js';

export interface ListFlags extends CommonFlags {
  readonly state?: ExecutionState;
  readonly provider?: string;
  readonly conversation?: string;
  readonly since?: string;
  readonly before?: string;
  readonly limit: number;
  readonly all?: boolean;
}

const PAGE = 1_000;

export async function list(flags: ListFlags): Promise<number | undefined> {
  return await withSession(flags, async ({ client, out }) => {
    const filter: ListExecutionsFilter = {
      state: flags.state,
      providerId: flags.provider,
      conversationId: flags.conversation,
      after: flags.since,
      before: flags.before,
    };
    const most = flags.all ? Number.POSITIVE_INFINITY : flags.limit;
    const shown: ExecutionSummary[] = [];
    let pageToken: string | undefined;
    do {
      const page = await client.listExecutions({ ...filter, limit: Math.min(PAGE, most - shown.length), pageToken });
      for (const execution of page.executions) out.record(execution);
      shown.push(...page.executions);
      pageToken = page.nextPageToken;
    } while (pageToken !== undefined && shown.length < most);
    if (out.json) return EXIT.ok;
    if (shown.length === 0) out.note('There is none. Lists are some seconds behind.');
    else
      for (const line of table([['EXECUTION', 'STATE', 'PROVIDER', 'AGE', 'WAITS FOR'], ...shown.map(row)]))
        out.say(line);
    if (pageToken !== undefined) out.note(`There are more: --limit, or --all.`);
    return EXIT.ok;
  });
}

function row({ id, state, providerId, createdAt, pendingActions }: ExecutionSummary): string[] {
  return [id, state, providerId, age(createdAt), oneLine(pendingActions[0]?.title ?? '', 60)];
}

export async function show(executionId: string, flags: CommonFlags): Promise<number | undefined> {
  return await withSession(flags, async (session) => {
    const execution = await session.client.getExecution(executionId);
    const { out } = session;
    if (out.json) out.record(execution);
    else await describe(execution, session);
    return EXIT.ok;
  });
}

async function describe(execution: Execution, session: Session): Promise<void> {
  const { out, client } = session;
  const { id, state, usage, error, finalOutput, pendingActions } = execution;
  const page = uiPage(session.file.config.uiUrl, session.cluster.namespace, id, client.tenant);
  const artifacts = await client.artifacts(id);
  const rows: [string, string | undefined][] = [
    ['execution', id],
    ['state', state],
    ['provider', execution.providerId],
    ['conversation', execution.conversationId],
    ['created', execution.createdAt],
    ['started', execution.startedAt],
    ['ended', execution.endedAt],
    ['input', oneLine(inOneLine(execution.input), 200)],
    ['usage', usage === undefined ? undefined : inOneLine(usage)],
    ['error', error === undefined ? undefined : oneLine(`${error.code}: ${error.message}`, 500)],
    ...artifacts.map(({ name, mediaType, uri = '' }): [string, string] => [
      'artifact',
      oneLine(`${name} (${mediaType}) ${uri}`, 300),
    ]),
    ['in the UI', page],
  ];
  for (const line of table(rows.flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))))
    out.say(line);
  for (const action of pendingActions) {
    out.say(`\nasks (${action.kind}, ${action.id}, for ${age(action.createdAt)}):`);
    for (const line of questionLines(action)) out.say(line);
    out.say(`answer: ${answerCommands(id, action)}`);
  }
  if (finalOutput !== undefined && finalOutput !== '') {
    out.say('\nfinal output:');
    out.say(`│ ${finalOutput}`);
  }
}

function inOneLine(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value);
}

export interface CancelFlags extends CommonFlags {
  readonly reason?: string;
  /** commander's `--no-wait`. */
  readonly wait: boolean;
}

/** Waits for the confirmation. What had ended already is left as it is. */
export async function cancel(executionId: string, flags: CancelFlags): Promise<number | undefined> {
  return await withSession(flags, async ({ client, out }) => {
    let execution = await client.cancel(executionId, flags.reason);
    const over = isTerminal(execution.state);
    if (flags.wait && !over) execution = await confirmed(executionId, client, out);
    const { state } = execution;
    const hint = isTerminal(state) ? '' : `; see: holdfast watch ${executionId}`;
    const already = over && state !== 'cancelled' ? 'had ended already: ' : '';
    out.tell(execution, `${executionId}: ${already}${state}${hint}`);
    return isTerminal(state) || !flags.wait ? EXIT.ok : EXIT.interrupted;
  });
}

async function confirmed(executionId: string, client: Session['client'], out: Output): Promise<Execution> {
  out.note(`Asked ${executionId} to end; waiting until it is confirmed. Ctrl-C leaves it to itself.`);
  const interrupts = new Interrupts();
  try {
    return await client.waitForTerminal(executionId, { signal: interrupts.leaving.signal });
  } catch (error) {
    if (!interrupts.leaving.signal.aborted) throw error;
    return await client.getExecution(executionId);
  } finally {
    interrupts.close();
  }
}
