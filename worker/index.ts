/** What runs executions, as `holdfast/worker`. */
export { HoldfastError } from '../protocol/errors.js';
export type { HoldfastWorkerOptions } from './options.js';
export { createWorker, type HoldfastWorker } from './worker.js';
