/** What a backend service uses, as `holdfast/client`. */
export { HoldfastError } from '../protocol/errors.js';
export {
  type ClientOptions,
  type EventPage,
  HoldfastClient,
  type RespondOptions,
  type RuntimeDescription,
  type StartedExecution,
} from './client.js';
export type { ExecutionList } from './listing.js';
