/**
 * How an execution shows itself to an operator: the state attribute, the open action in the memo, and current details
 * that say what is asked and how to answer it. Each upsert costs about 7 % of throughput, so only what a person acts on
 * is upserted; closed states are Temporal's own status.
 */
import { defineSearchAttributeKey, type SearchAttributePair } from '@temporalio/common';
import { setCurrentDetails, upsertMemo, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { approvalOptions } from '../protocol/action.js';
import { clip } from '../protocol/json.js';
import { EXECUTION_STATES, type ExecutionState } from '../protocol/lifecycle.js';
import type { LogState } from '../protocol/log/state.js';
import { type ActionMemo, MEMO, SEARCH_ATTRIBUTES } from './messages.js';

const STATE_KEY = defineSearchAttributeKey(SEARCH_ATTRIBUTES.state, 'KEYWORD');
const SHOWN: readonly ExecutionState[] = ['running', 'awaiting_input', 'awaiting_approval', 'cancelling'];

export class Presence {
  private shownState: ExecutionState | undefined;
  private shownAction: string | undefined;

  /** What is shown already: a continued run keeps the attributes of the one before, and is given its memo. */
  constructor(state: LogState) {
    const shown = workflowInfo().typedSearchAttributes.get(STATE_KEY);
    this.shownState = EXECUTION_STATES.find((each) => each === shown);
    this.shownAction = state.open?.request.id;
  }

  show(state: LogState): void {
    setCurrentDetails(details(state));
    if (state.result !== undefined) return;
    if (state.state !== this.shownState && SHOWN.includes(state.state)) {
      this.shownState = state.state;
      const pair: SearchAttributePair = { key: STATE_KEY, value: state.state };
      upsertSearchAttributes([pair]);
    }
    const open = state.open?.request;
    if (open?.id !== this.shownAction) {
      this.shownAction = open?.id;
      upsertMemo({ [MEMO.action]: open === undefined ? undefined : actionMemo(state) });
    }
  }
}

/** The open action as the memo holds it. */
export function actionMemo(state: LogState): ActionMemo | undefined {
  const open = state.open?.request;
  if (open === undefined) return undefined;
  const { id, kind, title, createdAt, expiresAt } = open;
  return { id, kind, title: clip(title, 200), createdAt, ...(expiresAt === undefined ? {} : { expiresAt }) };
}

function details(state: LogState): string {
  const lines = [`**${state.state}** · ${state.sequence} events · attempt ${state.attempt}`];
  const text = state.text.slice(-2000).trimEnd();
  const lastLine = text.slice(text.lastIndexOf('\n') + 1);
  if (lastLine !== '') lines.push('', `> ${clip(lastLine, 300)}`);
  if (state.request.needsTurn && !state.hasTurn && state.result === undefined)
    lines.push('', `Waits for its turn in conversation \`${state.conversationId}\`.`);
  const open = state.open?.request;
  if (open !== undefined) {
    const answers = open.kind === 'input' ? [{ value: 'your answer' }] : [{ approved: true }, { approved: false }];
    lines.push('', `**A person is needed (${open.kind}): ${clip(open.title, 300)}**`);
    if (open.description !== undefined) lines.push(clip(open.description, 1000));
    if (open.expiresAt !== undefined)
      lines.push('', `Expires at ${open.expiresAt}; then ${open.onExpiry === 'fail' ? 'it fails' : 'that is a no'}.`);
    if (open.valueSchema !== undefined)
      lines.push('', `The value has to fit this schema: \`${clip(JSON.stringify(open.valueSchema), 1000)}\``);
    const options = approvalOptions(open.payload) ?? [];
    if (options.length > 0) lines.push('', 'Options (name one as `"value": {"optionId": "…"}`):');
    for (const option of options.slice(0, 20)) lines.push(`- \`${clip(option.id, 100)}\` ${clip(option.name, 100)}`);
    lines.push('', 'To answer, send the signal `respond` with one of:', '', '```json');
    for (const response of answers)
      lines.push(JSON.stringify({ responseId: 'operator-1', actionId: open.id, response }));
    lines.push('```');
  }
  if (state.result === undefined && state.ending === undefined)
    lines.push('', 'To cancel: *Request Cancellation*, or the signal `cancel` with `{"reason": "…"}`.');
  return lines.join('\n');
}
