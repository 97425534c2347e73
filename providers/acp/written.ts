/**
 * What an agent's tools say that they wrote, as descriptors of artifacts: files as they are when the turn has ended, and
 * the diffs that it reported. Never anything outside of the workspace, also not by a link.
 */
import { realpath } from 'node:fs/promises';
import { relative, resolve } from 'node:path';
import type { ArtifactDescriptor } from '../../protocol/artifact.js';
import { HoldfastError } from '../../protocol/errors.js';
import type { Redactor } from '../process/redact.js';
import type { RunContext } from '../provider.js';
import { contentOf, contentOfText } from '../workspace/describe-file.js';
import { isInside, openInside, realPathOf } from '../workspace/inside.js';
import { mediaTypeOf } from '../workspace/media-type.js';
import { artifactUri } from '../workspace/uri.js';
import { isObject } from './message.js';

/** Of one turn; an execution may have 1,000 in all. */
const MAX_FILES = 400;
const MAX_DIFFS = 400;
/** Of a path; an artifact's name holds no more than 500 characters. */
const MAX_PATH = 400;
const WRITING = ['edit', 'delete', 'move'];

export interface WrittenOptions {
  readonly files: boolean;
  readonly diffs: boolean;
  readonly uri?: string | undefined;
  /** Absolute path, and its name. */
  readonly folder: string;
  readonly workspace: string;
}

interface Call {
  kind?: string;
  done: boolean;
  readonly paths: Set<string>;
  readonly diffs: Map<string, { readonly before: string | undefined; readonly after: string }>;
}

export class Written {
  readonly #options: WrittenOptions;
  readonly #calls = new Map<string, Call>();

  constructor(options: WrittenOptions) {
    this.#options = options;
  }

  /** Looks at one session update, before anything in it is shortened. */
  observe(update: Readonly<Record<string, unknown>>): void {
    const { files, diffs } = this.#options;
    const { sessionUpdate, toolCallId, kind, status, content, locations } = update;
    if (!(files || diffs) || typeof toolCallId !== 'string') return;
    if (sessionUpdate !== 'tool_call' && sessionUpdate !== 'tool_call_update') return;
    const call: Call = this.#calls.get(toolCallId) ?? { done: false, paths: new Set(), diffs: new Map() };
    if (this.#calls.size >= MAX_FILES && !this.#calls.has(toolCallId)) return;
    this.#calls.set(toolCallId, call);
    if (typeof kind === 'string') call.kind = kind;
    if (status === 'completed') call.done = true;
    for (const { path } of listOf(locations)) if (typeof path === 'string') call.paths.add(path);
    for (const { type, path, oldText, newText } of listOf(content))
      if (type === 'diff' && typeof path === 'string' && typeof newText === 'string')
        call.diffs.set(path, { before: typeof oldText === 'string' ? oldText : undefined, after: newText });
  }

  /** Emits the descriptors, once all of the agent has ended. Rejects as `ctx.artifact` does. */
  async publish(ctx: RunContext, redactor: Redactor): Promise<void> {
    const done = [...this.#calls].filter(([, call]) => call.done);
    const paths = new Set<string>();
    for (const [, { kind = '', paths: at, diffs }] of done)
      for (const path of [...diffs.keys(), ...(WRITING.includes(kind) ? at : [])])
        paths.add(resolve(this.#options.folder, path));
    const found: ArtifactDescriptor[] = [];
    if (this.#options.files)
      for (const path of [...paths].slice(0, MAX_FILES)) {
        const file = await this.#file(ctx, path);
        if (file !== undefined) found.push(file);
      }
    if (this.#options.diffs) {
      const diffs = done.flatMap(([toolCallId, call]) => [...call.diffs].map((diff) => ({ toolCallId, diff })));
      for (const { toolCallId, diff } of diffs.slice(0, MAX_DIFFS)) {
        const described = await this.#diff(ctx, toolCallId, ...diff);
        if (described !== undefined) found.push(described);
      }
    }
    for (const descriptor of found)
      await ctx.artifact(redactor.data(descriptor as never) as unknown as ArtifactDescriptor);
  }

  /** Undefined for what is no file of the workspace (any more). */
  async #file(ctx: RunContext, given: string): Promise<ArtifactDescriptor | undefined> {
    try {
      const { handle, path } = await openInside(this.#options.folder, given);
      try {
        return await this.#descriptor(ctx, path, { kind: 'file', ...(await contentOf(handle)) });
      } finally {
        await handle.close();
      }
    } catch (error) {
      if (!(error instanceof HoldfastError)) ctx.log('warn', 'a written file cannot be read', { error: String(error) });
      return undefined;
    }
  }

  async #diff(
    ctx: RunContext,
    toolCallId: string,
    given: string,
    { before, after }: { readonly before: string | undefined; readonly after: string },
  ): Promise<ArtifactDescriptor | undefined> {
    const real = await realPathOf(resolve(this.#options.folder, given));
    if (real === undefined) return undefined;
    return await this.#descriptor(ctx, real, {
      kind: 'diff',
      toolCallId: toolCallId.slice(0, 200),
      ...contentOfText(after),
      before: before === undefined ? null : { ...contentOfText(before) },
    });
  }

  /** `real` is an absolute path without links. Undefined for one that is not in the workspace. */
  async #descriptor(
    ctx: RunContext,
    real: string,
    metadata: NonNullable<ArtifactDescriptor['metadata']>,
  ): Promise<ArtifactDescriptor | undefined> {
    const { folder, workspace, uri: template } = this.#options;
    const root = await realpath(folder);
    const path = relative(root, real);
    if (path === '' || !isInside(root, real) || path.length > MAX_PATH) return undefined;
    const { tenant, id } = ctx.conversation;
    const fields = { tenant, conversation: id, execution: ctx.execution.id, workspace, path };
    const uri = artifactUri(template, real, fields);
    return {
      name: path,
      mediaType: mediaTypeOf(path),
      ...(uri === undefined ? {} : { uri }),
      metadata: { ...metadata, path },
    };
  }
}

function listOf(value: unknown): Record<string, unknown>[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}
