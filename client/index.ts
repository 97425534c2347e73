/** What a backend service uses, as `holdfast/client`. */
export { HoldfastError } from '../protocol/errors.js';
export {
  type EventPage,
  HoldfastClient,
  type RespondOptions,
  type RuntimeDescription,
} from './client.js';
export type { ConversationList, ListConversationsFilter } from './conversation-list.js';
export type { Inbox, InboxFilter, PendingAction } from './inbox.js';
export type { ExecutionList } from './listing.js';
export type { ClientOptions } from './options.js';
export type { Readiness } from './readiness.js';
export type { StartedExecution } from './starting.js';
export type { Subscription } from './subscribe.js';
