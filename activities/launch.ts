/**
 * What a host checks before any provider code runs: that this run is no *Reset*, that the attempt is still the current
 * one, that its own manifest has what is required, and that the configuration and the whole journal are there.
 */
import { randomBytes } from 'node:crypto';
import type { FoldedRun, LogReader } from '../log/reader.js';
import { HoldfastError } from '../protocol/errors.js';
import { idFrom } from '../protocol/ids.js';
import { type Json, jsonBytes, jsonProblem, throughJson } from '../protocol/json.js';
import { MAX_CONFIG_BYTES } from '../protocol/limits.js';
import type { Announcement } from '../protocol/log/inputs.js';
import type { LogState } from '../protocol/log/state.js';
import { type CapabilityLevel, capabilityLevel, unsupportedOf } from '../protocol/manifest.js';
import type { AnyProvider, Recovery, Resume } from '../providers/provider.js';
import type { HostOutcome } from '../workflows/messages.js';

export interface Launch {
  readonly provider: AnyProvider;
  readonly state: LogState;
  readonly config: unknown;
  readonly recovery: Recovery;
  readonly resume?: Resume;
  /** The suspended action whose answer `resume.response` is. */
  readonly took?: string;
  readonly announcement: Announcement;
}

export interface LaunchRequest {
  readonly workflowId: string;
  readonly runId: string;
  readonly attempt: number;
  readonly queue: string;
  readonly watchQueue: string;
}

/** Prepares an attempt, or says how it ends without one. */
export async function prepare(
  reader: LogReader,
  providers: ReadonlyMap<string, AnyProvider>,
  request: LaunchRequest,
): Promise<Launch | HostOutcome> {
  const folded = await reader.foldRun(request.workflowId, request.runId);
  if (folded.runId !== request.runId) return { kind: 'reset' };
  const { state } = folded.fold;
  if (state.attempt !== request.attempt || state.host !== undefined)
    return { kind: 'superseded', message: `attempt ${request.attempt} is not the one to start` };
  const provider = providers.get(state.providerId);
  if (provider === undefined) return refused('PROVIDER_NOT_FOUND', `this worker has no provider ${state.providerId}`);
  const missing = unsupportedOf(provider.manifest, state.request.requiredCapabilities);
  if (missing.length > 0)
    return refused('CAPABILITY_UNSUPPORTED', `${state.providerId} does not support ${missing.join(', ')}`);
  const read = configOf(provider, state.request.config);
  if ('kind' in read) return read;
  const { config, recovery } = read;
  const effectiveConfig = throughJson((config ?? null) as Json);
  const problem = jsonProblem(effectiveConfig);
  if (problem !== undefined) return refused('PROVIDER_ERROR', `the parsed config is not JSON: ${problem}`);
  if (jsonBytes(effectiveConfig) > MAX_CONFIG_BYTES)
    return refused('PROVIDER_ERROR', `the parsed config takes more than ${MAX_CONFIG_BYTES} bytes`);
  const journal = await journalOf(reader, request.workflowId, folded);
  if ('kind' in journal) return journal;
  const suspended = state.answers.findLast((answer) => answer.suspended);
  return {
    provider,
    state,
    config,
    recovery,
    ...(state.hasStarted
      ? { resume: { journal, ...(suspended === undefined ? {} : { response: suspended.response }) } }
      : {}),
    ...(suspended === undefined ? {} : { took: suspended.action.id }),
    announcement: {
      attempt: request.attempt,
      token: idFrom('resp', randomBytes(17)),
      queue: request.queue,
      watchQueue: request.watchQueue,
      providerVersion: provider.manifest.version,
      capabilities: levels(provider, [
        ...state.request.requiredCapabilities,
        ...(state.request.preferredCapabilities ?? []),
      ]),
      effectiveConfig,
      recovery,
    },
  };
}

/** The configuration as the provider parses it, and what that means for its recovery. Both are the provider's code. */
function configOf(provider: AnyProvider, given: Json): { config: unknown; recovery: Recovery } | HostOutcome {
  try {
    const parsed = provider.config.safeParse(given);
    if (!parsed.success) {
      const issue = parsed.error.issues[0];
      return refused('VALIDATION_ERROR', `config: ${issue?.path.join('.') || 'value'}: ${issue?.message ?? 'invalid'}`);
    }
    const { recovery = 'none' } = provider;
    return { config: parsed.data, recovery: typeof recovery === 'function' ? recovery(parsed.data) : recovery };
  } catch (error) {
    return refused('PROVIDER_ERROR', `the provider cannot read its configuration: ${String(error)}`);
  }
}

async function journalOf(
  reader: LogReader,
  workflowId: string,
  folded: FoldedRun,
): Promise<readonly Json[] | HostOutcome> {
  try {
    return await reader.journal(workflowId, folded);
  } catch (error) {
    if (error instanceof HoldfastError && error.code === 'EVENTS_EXPIRED')
      return refused('EVENTS_EXPIRED', 'part of the journal is past retention; it is not resumed from the rest');
    throw error;
  }
}

function levels(provider: AnyProvider, wanted: readonly string[]): Record<string, CapabilityLevel> {
  return Object.fromEntries(wanted.map((name) => [name, capabilityLevel(provider.manifest, name)]));
}

function refused(code: string, message: string): HostOutcome {
  return { kind: 'settled', result: { how: 'refused', code, message } };
}
