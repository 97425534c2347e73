/** Where an execution is seen in the Temporal UI. */
import { workflowIdOf } from '../protocol/ids.js';

export function uiPage(
  uiUrl: string | undefined,
  namespace: string,
  executionId: string,
  tenant: string,
): string | undefined {
  if (uiUrl === undefined) return undefined;
  return `${uiUrl.replace(/\/$/, '')}/namespaces/${namespace}/workflows/${workflowIdOf(tenant, executionId)}`;
}
