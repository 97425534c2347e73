/** What runs executions, as `holdfast/worker`. */
export { HoldfastError } from '../protocol/errors.js';
export { createWorker, type HoldfastWorker, type HoldfastWorkerOptions } from './worker.js';
