/** An execution's log: in pages, or as a live stream. */
import { z } from 'zod';
import type { Subscription } from '../../client/subscribe.js';
import { HoldfastError } from '../../protocol/errors.js';
import type { HoldfastEvent } from '../../protocol/event.js';
import { wantsEventStream } from '../accept.js';
import type { GatewayContext } from '../context.js';
import { type AnyOperation, operation } from '../operation.js';
import type { ReadGrant } from '../read-tokens.js';
import { eventList, executionId, wholeNumber } from '../schemas.js';
import type { Streams } from '../streams.js';

const MAX_PAGE = 10_000;
const CURSOR = /^\d{1,16}$/;

const STREAM_HEADERS = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  // No proxy may hold back, compress or keep it.
  'Cache-Control': 'no-store, no-transform',
  'X-Accel-Buffering': 'no',
} as const;

const description = `In JSON, one page. With \`Accept: text/event-stream\`, a stream: first what there is after the
cursor, then what comes, live; it ends after the terminal event. \`id\` is the sequence, \`event\` the type, \`data\` the
event. A comment every 15 s shows that it lives. It may end at any time without a terminal event, as it does when its
read token expires: connect again, with \`after\` the last \`id\`. \`Last-Event-ID\`, which a browser sends then, wins over
\`after\`; sent for a log that is over, it is answered with 204, so that an EventSource stops.`;

export function eventOperations(): AnyOperation[] {
  return [
    operation({
      method: 'get',
      path: '/v1/executions/{id}/events',
      id: 'listOrStreamEvents',
      tag: 'Events',
      summary: 'Read the log of an execution, or follow it',
      description: description.replaceAll('\n', ' '),
      access: 'events',
      params: { id: executionId },
      query: {
        after: wholeNumber(0, Number.MAX_SAFE_INTEGER, 'The last sequence you have. Default 0.').optional(),
        limit: wholeNumber(1, MAX_PAGE, 'Events a page, in JSON only. Default 1,000.').optional(),
        access_token: z.string().max(2_000).meta({ description: 'A read token.' }).optional(),
      },
      headers: {
        'Last-Event-ID': z
          .string()
          .regex(CURSOR)
          .meta({ description: 'Where a stream goes on. Wins over `after`.' })
          .optional(),
      },
      replies: {
        200: {
          description: 'A page, or a stream.',
          content: {
            'application/json': { schema: eventList },
            'text/event-stream': { schema: z.string().meta({ description: 'Server-sent events.' }) },
          },
        },
        204: { description: 'The log is over, and `Last-Event-ID` is its last event.' },
      },
      problems: ['NOT_FOUND', 'EVENTS_EXPIRED', 'QUOTA_EXCEEDED'],
      handle: async ({ c, client, params, query, settings }) => {
        c.header('Vary', 'Accept', { append: true });
        const { after = 0, limit } = query;
        if (!wantsEventStream(c.req.header('accept')))
          return c.json(await client.listEvents(params.id, { after, ...(limit === undefined ? {} : { limit }) }));
        if (limit !== undefined) throw new HoldfastError('VALIDATION_ERROR', 'query.limit: a stream has no pages');
        const last = lastEventId(c);
        if (c.req.method === 'HEAD') {
          await client.getExecution(params.id);
          return c.body(null, 200, STREAM_HEADERS);
        }
        return await settings.streams.withRoom(async () => {
          const subscription = await client.subscribe(params.id, { after: last ?? after });
          if (subscription.at === 'end' && last !== undefined) {
            await subscription.events.return?.();
            return c.body(null, 204);
          }
          return c.body(await streamOf(c, subscription, settings.streams), 200, STREAM_HEADERS);
        });
      },
    }),
  ];
}

function lastEventId(c: GatewayContext): number | undefined {
  const given = c.req.header('last-event-id');
  if (given === undefined) return undefined;
  if (!CURSOR.test(given) || !Number.isSafeInteger(Number(given)))
    throw new HoldfastError('VALIDATION_ERROR', 'Last-Event-ID: must be a whole number: the last sequence you have');
  return Number(given);
}

/** What can still be refused is refused before the stream begins: with a backlog, its first event is there soon. */
async function streamOf(
  c: GatewayContext,
  subscription: Subscription,
  streams: Streams,
): Promise<ReadableStream<Uint8Array>> {
  const { at, events } = subscription;
  const first = at === 'backlog' ? await events.next() : undefined;
  const notes = c.get('notes');
  const { outgoing } = c.env ?? {};
  return streams.start({
    events: first === undefined ? events : startingWith(first, events),
    isOver: at === 'end',
    expiresAt: expiryOf(c.get('identity').grant),
    ended: (end, sent, error) => {
      notes.stream = end;
      notes.events = sent;
      if (error instanceof HoldfastError) notes.code = error.code;
    },
    destroy: () => {
      if (outgoing !== undefined && !outgoing.writableFinished) outgoing.destroy();
    },
  });
}

function expiryOf(grant: ReadGrant | undefined): number | undefined {
  return grant === undefined ? undefined : Date.parse(grant.expiresAt);
}

function startingWith(
  first: IteratorResult<HoldfastEvent>,
  rest: AsyncIterableIterator<HoldfastEvent>,
): AsyncIterableIterator<HoldfastEvent> {
  let isFirst = true;
  return {
    next: () => {
      if (!isFirst) return rest.next();
      isFirst = false;
      return Promise.resolve(first);
    },
    return: async () => (await rest.return?.()) ?? { done: true, value: undefined },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}
