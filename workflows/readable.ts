/** The start argument of a workflow, as far as this worker can read it. */
import { UNDECODABLE } from '../protocol/log/inputs.js';

/**
 * Throws when a worker without the caller's payload codec (or with another key) has taken a task. A plain error fails
 * the task and not the workflow: a worker that has the codec goes on with it. Going on from nothing would, for one,
 * replace the catalog by what this worker announces, and no other worker could replay it any more.
 */
export function readable<T>(start: T): T {
  if (start !== (UNDECODABLE as unknown)) return start;
  throw new Error(
    'the start argument cannot be decoded: this worker lacks the payload codec of its callers, or their key',
  );
}
