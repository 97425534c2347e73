/** `holdfast inbox`, `approve`, `reject` and `answer`. */
import { randomId } from '../../client/identity.js';
import type { PendingAction } from '../../client/inbox.js';
import { type ActionRequest, type ActionResponse, approvalOptions } from '../../protocol/action.js';
import { HoldfastError } from '../../protocol/errors.js';
import { jsonValue, textOrInput } from '../arguments.js';
import { answerCommands, questionLines } from '../describe-action.js';
import { EXIT } from '../exit.js';
import { age, table } from '../output.js';
import { hasTerminal } from '../question.js';
import { type CommonFlags, type Session, withSession } from '../session.js';
import { oneLine } from '../text.js';

export interface InboxFlags extends CommonFlags {
  readonly limit: number;
}

/** What has waited longest comes first. */
export async function inbox(flags: InboxFlags): Promise<number | undefined> {
  return await withSession(flags, async ({ client, out }) => {
    const { actions, nextPageToken, truncated } = await client.listPendingActions({
      order: 'oldest',
      limit: flags.limit,
    });
    for (const action of actions) out.record(action);
    if (out.json) return EXIT.ok;
    if (actions.length === 0) out.note('Nothing waits for a person. Lists are some seconds behind.');
    else
      for (const line of table([['EXECUTION', 'KIND', 'WAITS', 'PROVIDER', 'ASKS'], ...actions.map(row)]))
        out.say(line);
    if (nextPageToken !== undefined || truncated) out.note('There are more: --limit.');
    const [first] = actions;
    if (first !== undefined)
      out.note(`Look: holdfast show ${first.executionId}. Answer: ${answerCommands(first.executionId, first)}`);
    return EXIT.ok;
  });
}

function row({ executionId, kind, createdAt, providerId, title }: PendingAction): string[] {
  return [executionId, kind, age(createdAt), providerId, oneLine(title, 60)];
}

export interface DecideFlags extends CommonFlags {
  readonly option?: string;
  readonly responseId?: string;
  readonly digest?: string;
}

export async function decide(
  approved: boolean,
  executionId: string,
  actionId: string | undefined,
  flags: DecideFlags,
): Promise<number | undefined> {
  return await withSession(flags, async (session) => {
    const action = await findAction(session, executionId, actionId, flags.responseId !== undefined);
    const optionId = flags.option ?? (await chosenOption(approved, action));
    return await respond(
      session,
      executionId,
      action,
      { approved, ...(optionId === undefined ? {} : { value: { optionId } }) },
      flags,
    );
  });
}

export interface AnswerFlags extends CommonFlags {
  readonly text?: string;
  readonly value?: string;
  readonly responseId?: string;
  readonly digest?: string;
}

export async function answer(
  executionId: string,
  actionId: string | undefined,
  flags: AnswerFlags,
): Promise<number | undefined> {
  if (flags.text !== undefined && flags.value !== undefined)
    throw new HoldfastError('VALIDATION_ERROR', '--text and --value exclude each other');
  if (flags.text === undefined && flags.value === undefined && !hasTerminal())
    throw new HoldfastError(
      'VALIDATION_ERROR',
      'there is no terminal to ask at: give the answer by --text, --value or --text - (standard input)',
    );
  const given =
    flags.text !== undefined
      ? await textOrInput(flags.text)
      : flags.value === undefined
        ? undefined
        : await jsonValue('--value', flags.value);
  return await withSession(flags, async (session) => {
    const action = await findAction(session, executionId, actionId, flags.responseId !== undefined);
    const response = given === undefined ? await asked(action, session) : { value: given as ActionResponse['value'] };
    if (response === undefined) return EXIT.interrupted;
    return await respond(session, executionId, action, response, flags);
  });
}

async function asked(action: Found, { out }: Session): Promise<ActionResponse | undefined> {
  if (!('title' in action)) throw new HoldfastError('VALIDATION_ERROR', 'give the answer by --text or --value');
  for (const line of questionLines(action)) out.say(line);
  const { askPerson } = await import('../asking.js');
  const said = await askPerson(action, new AbortController().signal);
  return typeof said === 'string' ? undefined : said;
}

/** What is open, or the bare id of what may have been answered by this very response. */
type Found = ActionRequest | { readonly id: string };

/** The action that is meant: the one that is open, unless one is named. */
async function findAction(
  { client }: Session,
  executionId: string,
  actionId: string | undefined,
  isRepeated: boolean,
): Promise<Found> {
  const { pendingActions, state } = await client.getExecution(executionId);
  const open = actionId === undefined ? pendingActions[0] : pendingActions.find(({ id }) => id === actionId);
  if (open !== undefined) return open;
  // Whether it was ever there, and what became of it, the runtime knows.
  if (actionId !== undefined) return { id: actionId };
  const repeat = isRepeated ? '; name the action that you answered before' : '';
  throw new HoldfastError('INVALID_STATE', `${executionId} asks nothing now: it is ${state}${repeat}`);
}

/** Where several options fit, the person chooses; where there is nobody, the flag that chooses is named. */
async function chosenOption(approved: boolean, action: Found): Promise<string | undefined> {
  if (!('payload' in action)) return undefined;
  const options = approvalOptions(action.payload);
  if (options === undefined) return undefined;
  const kind = approved ? 'allow_once' : 'reject_once';
  const fitting = options.filter((option) => option.kind === kind);
  const [only] =
    fitting.length > 0 ? fitting : options.filter((option) => option.kind.startsWith(approved ? 'allow' : 'reject'));
  if (fitting.length <= 1) return only?.id;
  const choices = fitting.map(({ id, name }) => `${id} (${oneLine(name)})`).join(', ');
  if (!hasTerminal())
    throw new HoldfastError('VALIDATION_ERROR', `several options fit: name one by --option: ${choices}`);
  const { isCancel, select } = await import('@clack/prompts');
  const chosen = await select({
    message: 'Which?',
    options: fitting.map(({ id, name }) => ({ value: id, label: oneLine(name) })),
  });
  if (isCancel(chosen))
    throw new HoldfastError('VALIDATION_ERROR', `nothing was chosen; name one by --option: ${choices}`);
  return chosen;
}

/** Accepted durably when it returns. What is unknown says how to learn it. */
async function respond(
  { client, out }: Session,
  executionId: string,
  action: Found,
  response: ActionResponse,
  { responseId = randomId('resp'), digest }: { readonly responseId?: string; readonly digest?: string },
): Promise<number> {
  const { id: actionId } = action;
  // What was read here is what is decided on, unless the caller says what was.
  const expectedDigest = digest ?? ('digest' in action ? action.digest : undefined);
  const given = expectedDigest === undefined ? response : { ...response, expectedDigest };
  try {
    await client.respond(executionId, actionId, given, { responseId });
  } catch (error) {
    if (!(error instanceof HoldfastError) || error.code !== 'RUNTIME_UNAVAILABLE') throw error;
    const again = `repeat it with: ${actionId} --response-id ${responseId}`;
    throw new HoldfastError(error.code, `${error.message}; it may have been accepted: ${again}`, {
      details: { ...error.details, responseId },
      cause: error,
    });
  }
  // Where no action was named, this is how one sees which it was.
  const asks = 'title' in action ? [`│ ${oneLine(action.title, 500)}`] : [];
  const said = response.approved === undefined ? 'answered' : response.approved ? 'approved' : 'rejected';
  out.tell({ executionId, actionId, responseId, ...given }, `${said}: ${actionId} of ${executionId}`, ...asks);
  return EXIT.ok;
}
