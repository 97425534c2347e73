/**
 * The portable contract, as `holdfast/protocol`: schemas with inferred types, the error class, the lifecycle. It speaks
 * of no Temporal and imports zod alone.
 */
export {
  type ActionKind,
  type ActionRequest,
  type ActionResponse,
  type ApprovalOption,
  actionKindSchema,
  actionRequestSchema,
  actionResponseSchema,
  approvalOptionSchema,
  approvalOptions,
} from './action.js';
export { type Artifact, type ArtifactDescriptor, artifactDescriptorSchema, artifactSchema } from './artifact.js';
export {
  type Conversation,
  type CreateConversationRequest,
  conversationSchema,
  createConversationRequestSchema,
} from './conversation.js';
export {
  ERROR_STATUS,
  type ErrorCode,
  type ErrorDetails,
  EXECUTION_ONLY_CODES,
  type ExecutionErrorCode,
  HoldfastError,
  isErrorCode,
  isExecutionErrorCode,
} from './errors.js';
export {
  type Confirmation,
  confirmationSchema,
  type EventData,
  type EventType,
  eventDataSchemas,
  eventSchema,
  eventTypeSchema,
  type HoldfastEvent,
  isTerminalEvent,
  PROVIDER_EVENT_TYPES,
  type ProviderEventType,
  TERMINAL_EVENTS,
} from './event.js';
export {
  type Execution,
  type ExecutionSummary,
  executionSchema,
  executionSummarySchema,
  type ListExecutionsFilter,
  listExecutionsFilterSchema,
  type StartExecutionRequest,
  startExecutionRequestSchema,
  type Usage,
  usageSchema,
} from './execution.js';
export { DEFAULT_TENANT, ID_PATTERN, idSchema, workflowIdOf } from './ids.js';
export { canonicalJson, type Json, type JsonObject, jsonObject, jsonValue } from './json.js';
export { EXECUTION_STATES, type ExecutionState, executionStateSchema, isTerminal, TRANSITIONS } from './lifecycle.js';
export {
  type CapabilityLevel,
  capabilityLevel,
  capabilityLevelSchema,
  PROTOCOL_VERSION,
  type ProviderManifest,
  providerManifestSchema,
  STANDARD_CAPABILITIES,
  topologySchema,
} from './manifest.js';
export { VERSION } from './version.js';
