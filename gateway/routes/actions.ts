/** Actions: what waits for a person, in one execution and across all of them, and the answers. */
import { z } from 'zod';
import { randomId } from '../../client/identity.js';
import { HoldfastError } from '../../protocol/errors.js';
import { ID_PATTERN, idSchema } from '../../protocol/ids.js';
import type { GatewayContext } from '../context.js';
import { idempotencyKeyOf } from '../idempotency.js';
import { type AnyOperation, operation } from '../operation.js';
import { actionId, actionList, actionResponse, execution, executionId, inbox, json, wholeNumber } from '../schemas.js';

export function actionOperations(): AnyOperation[] {
  return [
    operation({
      method: 'get',
      path: '/v1/actions',
      id: 'listPendingActions',
      tag: 'Actions',
      summary: 'The inbox: what waits for a person, across executions',
      description:
        'Comes from an index that is seconds behind: what was answered just now may still be listed. By default the newest execution comes first; `order=oldest` sorts what is open, up to 10,000, and says when it was cut.',
      query: {
        state: z.literal('pending').meta({ description: 'There are no others to list.' }).optional(),
        order: z.enum(['newest', 'oldest']).meta({ description: 'Which comes first. Default `newest`.' }).optional(),
        limit: wholeNumber(1, 1000, 'Actions a page. Default 100.').optional(),
        pageToken: z.string().max(10_000).meta({ description: 'The `nextPageToken` of the page before.' }).optional(),
      },
      replies: { 200: json('One page.', inbox) },
      handle: async ({ c, client, query: { order, limit, pageToken } }) =>
        c.json(await client.listPendingActions({ order, limit, pageToken })),
    }),
    operation({
      method: 'get',
      path: '/v1/executions/{id}/actions',
      id: 'listActions',
      tag: 'Actions',
      summary: 'The open actions of an execution',
      description: 'Read from its log, so what was answered just now is not among them.',
      params: { id: executionId },
      replies: { 200: json('Those that wait for an answer now.', actionList) },
      problems: ['NOT_FOUND'],
      handle: async ({ c, client, params }) =>
        c.json({ actions: (await client.getExecution(params.id)).pendingActions }),
    }),
    operation({
      method: 'post',
      path: '/v1/executions/{id}/actions/{actionId}:respond',
      id: 'respondToAction',
      tag: 'Actions',
      summary: 'Answer an action',
      description:
        'Answers once the answer is accepted durably. Repeated with the same `Idempotency-Key` it gives the first outcome. After a 503 `details.outcome` is `unknown`: repeat it with `details.responseId` as the key.',
      params: { id: executionId, actionId },
      headers: {
        'Idempotency-Key': idSchema.optional().meta({ description: 'Names this answer. Default: random.' }),
      },
      body: actionResponse,
      replies: { 200: json('The execution as it then was.', execution) },
      problems: ['NOT_FOUND', 'ACTION_NOT_FOUND', 'ACTION_ALREADY_RESOLVED', 'INVALID_STATE'],
      handle: async ({ c, client, params, body }) => {
        const responseId = responseIdOf(c);
        const answered = client.respond(params.id, params.actionId, body, { responseId });
        return c.json(await answered.catch((error) => Promise.reject(withResponseId(error, responseId))));
      },
    }),
  ];
}

function responseIdOf(c: GatewayContext): string {
  const key = idempotencyKeyOf(c) ?? randomId('resp');
  if (!ID_PATTERN.test(key))
    throw new HoldfastError(
      'VALIDATION_ERROR',
      'Idempotency-Key: names the answer here: 1–128 characters of A–Z, a–z, 0–9, "_" and "-"',
    );
  return key;
}

/** Whoever gave no key of their own needs ours, to learn the outcome. */
function withResponseId(error: unknown, responseId: string): unknown {
  if (!(error instanceof HoldfastError) || error.code !== 'RUNTIME_UNAVAILABLE') return error;
  const details = { outcome: 'unknown', responseId, ...error.details };
  return new HoldfastError(error.code, error.message, { details, cause: error });
}
