/** `holdfast providers` and `holdfast conversations`. */
import { jsonValue } from '../arguments.js';
import { EXIT } from '../exit.js';
import { age, table } from '../output.js';
import { type CommonFlags, withSession } from '../session.js';
import { oneLine } from '../text.js';

export async function providers(flags: CommonFlags): Promise<number | undefined> {
  return await withSession(flags, async ({ client, out }) => {
    const known = (await client.describeRuntime()).providers;
    for (const manifest of known) out.record(manifest);
    if (out.json) return EXIT.ok;
    if (known.length === 0) out.note('There is none: no worker has announced any. Start one: holdfast worker');
    for (const { id, name, version, topologies, capabilities } of known) {
      out.say(`${id}  ${oneLine(name)} ${oneLine(version)}, ${topologies.join(', ')}`);
      const byLevel = new Map<string, string[]>();
      for (const [capability, level] of Object.entries(capabilities))
        byLevel.set(level, [...(byLevel.get(level) ?? []), capability]);
      for (const [level, names] of byLevel) out.say(`    ${level}: ${names.sort().join(', ')}`);
    }
    return EXIT.ok;
  });
}

export interface ConversationsFlags extends CommonFlags {
  readonly open?: boolean;
  readonly limit: number;
}

export async function conversations(flags: ConversationsFlags): Promise<number | undefined> {
  return await withSession(flags, async ({ client, out }) => {
    const filter = { limit: flags.limit, ...(flags.open ? { open: true as const } : {}) };
    const { conversations: found, nextPageToken } = await client.listConversations(filter);
    for (const conversation of found) out.record(conversation);
    if (out.json) return EXIT.ok;
    const rows = found.map(({ id, closed, createdAt, metadata }) => [
      id,
      closed ? 'closed' : 'open',
      age(createdAt),
      Object.keys(metadata).length === 0 ? '' : oneLine(JSON.stringify(metadata), 80),
    ]);
    if (rows.length === 0) out.note('There is none. Lists are some seconds behind.');
    else for (const line of table([['CONVERSATION', '', 'AGE', 'METADATA'], ...rows])) out.say(line);
    if (nextPageToken !== undefined) out.note('There are more: --limit.');
    return EXIT.ok;
  });
}

export interface CreateFlags extends CommonFlags {
  readonly metadata?: string;
  readonly closeAfterIdleDays?: number;
}

export async function createConversation(flags: CreateFlags): Promise<number | undefined> {
  const metadata = flags.metadata === undefined ? undefined : await jsonValue('--metadata', flags.metadata);
  return await withSession(flags, async ({ client, out }) => {
    const { closeAfterIdleDays } = flags;
    const conversation = await client.createConversation({
      ...(metadata === undefined ? {} : { metadata: metadata as never }),
      ...(closeAfterIdleDays === undefined ? {} : { closeAfterIdleDays }),
    });
    out.tell(conversation, conversation.id);
    return EXIT.ok;
  });
}

export async function closeConversation(id: string, flags: CommonFlags): Promise<number | undefined> {
  return await withSession(flags, async ({ client, out }) => {
    out.tell(await client.closeConversation(id), `${id}: closed`);
    return EXIT.ok;
  });
}
