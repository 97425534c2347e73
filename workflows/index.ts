/** The entry of the workflow bundle: one export a workflow type. */
export { catalog } from './catalog.js';
export { conversation } from './conversation.js';
export { execution } from './execution.js';
