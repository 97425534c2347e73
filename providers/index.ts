/** What a provider author uses, as `holdfast/provider`: the SPI, and the providers that come with Holdfast. */
export { HoldfastError } from '../protocol/errors.js';
export { type CapabilityLevel, PROTOCOL_VERSION, type ProviderManifest } from '../protocol/manifest.js';
export { acpProvider } from './acp/acp.js';
export { type AiModel, type AiOptions, type AiTool, aiProvider, aiTool, type McpServer } from './ai/ai.js';
export { type CommandOptions, commandProvider } from './command/command.js';
export {
  type ActionQuestion,
  type AnyProvider,
  type ConversationRef,
  HandedOver,
  type Provider,
  type ProviderHost,
  type Recovery,
  type Resume,
  type RunContext,
  type RunResult,
} from './provider.js';
export { capabilitiesOf, type RemoteOptions, remoteProvider } from './remote/remote.js';
export { scriptedProvider } from './scripted/provider.js';
