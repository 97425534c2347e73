/** The bare workflows that stand beside Holdfast: the plain SDK, and nothing of ours. One export a workflow type. */
export { bare } from './bare.js';
export { mailbox } from './mailbox.js';
export { sameEvents } from './same-events.js';
export { signalToActivity } from './signal-to-activity.js';
