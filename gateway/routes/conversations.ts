/** Conversations: what executions that belong together share. */
import { type AnyOperation, operation } from '../operation.js';
import {
  closeConversation,
  conversation,
  conversationId,
  createConversation,
  executionList,
  json,
} from '../schemas.js';
import { listQuery } from './executions.js';

export function conversationOperations(): AnyOperation[] {
  return [
    operation({
      method: 'post',
      path: '/v1/conversations',
      id: 'createConversation',
      tag: 'Conversations',
      summary: 'Create a conversation',
      description: 'Executions of one conversation take turns, and continue what was said where their provider can.',
      body: createConversation,
      replies: { 201: json('The conversation.', conversation) },
      handle: async ({ c, client, body }) => c.json(await client.createConversation(body), 201),
    }),
    operation({
      method: 'get',
      path: '/v1/conversations/{id}',
      id: 'getConversation',
      tag: 'Conversations',
      summary: 'Read a conversation',
      description: 'Read from the server itself: what was changed just now is there.',
      params: { id: conversationId },
      replies: { 200: json('The conversation.', conversation) },
      problems: ['NOT_FOUND'],
      handle: async ({ c, client, params }) => c.json(await client.getConversation(params.id)),
    }),
    operation({
      method: 'post',
      path: '/v1/conversations/{id}:close',
      id: 'closeConversation',
      tag: 'Conversations',
      summary: 'Close a conversation',
      description:
        'Later starts in it get `INVALID_STATE`, executions that wait for their turn end as `cancelled`, the one that has the turn goes on. Closing it again changes nothing.',
      params: { id: conversationId },
      body: closeConversation,
      replies: { 200: json('The conversation.', conversation) },
      problems: ['NOT_FOUND'],
      handle: async ({ c, client, params }) => c.json(await client.closeConversation(params.id)),
    }),
    operation({
      method: 'get',
      path: '/v1/conversations/{id}/executions',
      id: 'listConversationExecutions',
      tag: 'Conversations',
      summary: 'List the executions of a conversation',
      description: 'As `GET /v1/executions`: newest first, seconds behind.',
      params: { id: conversationId },
      query: listQuery,
      replies: { 200: json('One page.', executionList) },
      problems: ['NOT_FOUND'],
      handle: async ({ c, client, params, query }) => {
        await client.getConversation(params.id);
        return c.json(await client.listExecutions({ ...query, conversationId: params.id }));
      },
    }),
  ];
}
