/** What executions that belong together share. */
import { z } from 'zod';
import { idSchema } from './ids.js';
import { jsonObject } from './json.js';

export const conversationSchema = z.strictObject({
  id: idSchema,
  createdAt: z.iso.datetime(),
  metadata: jsonObject,
  /** It takes no execution any more. */
  closed: z.boolean(),
});
export type Conversation = z.infer<typeof conversationSchema>;

export const createConversationRequestSchema = z.strictObject({
  metadata: jsonObject.optional(),
  /** It closes itself when nothing happened for so many days. */
  closeAfterIdleDays: z.int().min(1).max(3650).optional(),
});
export type CreateConversationRequest = z.infer<typeof createConversationRequestSchema>;
