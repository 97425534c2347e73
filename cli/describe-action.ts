/** What an action asks, and the commands that answer it, as lines for people. */
import { type ActionRequest, approvalOptions } from '../protocol/action.js';
import { oneLine, plain } from './text.js';

/** The question as the agent put it: each line behind a bar. */
export function questionLines(action: ActionRequest): string[] {
  const { title, description, payload, valueSchema, expiresAt, onExpiry = 'reject' } = action;
  const command = commandOf(payload);
  const lines = [oneLine(title, 500), ...(command === undefined ? [] : [`$ ${command}`])];
  if (description !== undefined) lines.push(...plain(description).split('\n'));
  for (const { id, name, kind } of approvalOptions(payload) ?? [])
    lines.push(`- ${oneLine(name)} (${oneLine(id)}, ${kind})`);
  const own = [
    ...(valueSchema === undefined ? [] : [`takes a value like ${oneLine(JSON.stringify(valueSchema), 500)}`]),
    ...(expiresAt === undefined ? [] : [`expires at ${expiresAt}, which ${onExpiry}s it`]),
  ];
  return [...lines.map((line) => `│ ${line}`), ...own];
}

/** How to answer it from any terminal: this action and no other, should it be taken back and another one be asked. */
export function answerCommands(executionId: string, { kind, id }: Pick<ActionRequest, 'kind' | 'id'>): string {
  return kind === 'approval'
    ? `holdfast approve ${executionId} ${id}, or holdfast reject ${executionId} ${id}`
    : `holdfast answer ${executionId} ${id} --text "…"`;
}

/** Agents that speak ACP put the call itself into the payload. */
function commandOf(payload: unknown): string | undefined {
  const command = field(field(field(payload, 'toolCall'), 'rawInput'), 'command');
  return typeof command === 'string' ? oneLine(command, 500) : undefined;
}

function field(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
}
