/** What a provider says of itself: identity, where it runs, and how well it supports each capability. */
import { z } from 'zod';
import { idSchema } from './ids.js';
import { jsonObject } from './json.js';

/** The version of the contract that this package speaks. */
export const PROTOCOL_VERSION = '2026-09-02';

export const topologySchema = z.enum(['embedded', 'subprocess', 'remote']);
export const capabilityLevelSchema = z.enum(['native', 'emulated', 'degraded', 'unsupported']);
export type CapabilityLevel = z.infer<typeof capabilityLevelSchema>;

/** The standard names. Providers may add others of their own. */
export const STANDARD_CAPABILITIES = [
  'action.approval',
  'action.input',
  'artifact.list',
  'execution.cancel',
  'conversation.continuity',
  'event.replay',
  'event.streaming',
  'extension.mcp',
  'extension.sandbox',
  'extension.skills',
  'extension.subagents',
] as const;

export const capabilityNameSchema = z
  .string()
  // Without a flag: JSON Schema has no place for one.
  .regex(/^[A-Za-z][A-Za-z0-9]*([._-][A-Za-z0-9]+)*$/, 'must look like "extension.mcp"')
  .max(100);

export const capabilitiesSchema = z.record(capabilityNameSchema, capabilityLevelSchema);

export const providerManifestSchema = z.strictObject({
  id: idSchema,
  name: z.string().min(1).max(200),
  version: z.string().min(1).max(100),
  protocolVersion: z.string().min(1).max(50),
  topologies: z.array(topologySchema).min(1),
  capabilities: capabilitiesSchema,
  metadata: jsonObject.optional(),
});
export type ProviderManifest = z.infer<typeof providerManifestSchema>;

/** The level at which a manifest supports `name`; what it does not mention is `unsupported`. */
export function capabilityLevel(manifest: Pick<ProviderManifest, 'capabilities'>, name: string): CapabilityLevel {
  return Object.hasOwn(manifest.capabilities, name) ? (manifest.capabilities[name] ?? 'unsupported') : 'unsupported';
}

/** Those of `required` that the manifest does not support at any level (invariant 3). */
export function unsupportedOf(manifest: Pick<ProviderManifest, 'capabilities'>, required: readonly string[]): string[] {
  return required.filter((name) => capabilityLevel(manifest, name) === 'unsupported');
}
