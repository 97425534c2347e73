/** The remote log, said again here: each event becomes one of ours, and the cursor is on record with what it covers. */

import { createHash } from 'node:crypto';
import { type ArtifactDescriptor, artifactDescriptorSchema } from '../../protocol/artifact.js';
import { HoldfastError, isErrorCode } from '../../protocol/errors.js';
import { nativeNameProblem } from '../../protocol/event.js';
import { ID_PATTERN, idFrom } from '../../protocol/ids.js';
import { clip, type Json, type JsonObject, jsonBytes, jsonProblem } from '../../protocol/json.js';
import { MAX_ARTIFACT_BYTES, MAX_EVENT_BYTES, MAX_MESSAGE_LENGTH } from '../../protocol/limits.js';
import { TextGate } from '../process/redact.js';
import type { RunContext } from '../provider.js';
import type { Remote } from './http.js';
import type { Journal } from './journal.js';
import type { Questions } from './questions.js';
import { type RemoteEvent, readData } from './wire.js';

/** Text is said again after a crash, so its cursor may be some way behind. */
const TEXT_CURSOR_MS = 1_000;
const TEXT_CURSOR_LENGTH = 16 * 1024;

/** How the remote execution ended. */
export type Ending =
  | { readonly how: 'completed'; readonly finalOutput?: string }
  | { readonly how: 'failed'; readonly error: HoldfastError }
  | { readonly how: 'cancelled'; readonly confirmation?: string; readonly reason?: string };

export class Mirror {
  private readonly gate: TextGate;
  private readonly artifacts = new Set<string>();
  private recordedAt = performance.now();
  private unrecordedText = 0;

  constructor(
    private readonly ctx: RunContext<unknown>,
    private readonly remote: Remote,
    private readonly journal: Journal,
    private readonly questions: Questions,
  ) {
    this.gate = new TextGate(remote.redactor);
  }

  /** Takes what came in one read. Resolves, with the end if it was there, when there is room for more. */
  async take(events: readonly RemoteEvent[]): Promise<Ending | undefined> {
    // All in one go, so that they are in one batch with the cursor after them: both are in the log, or neither.
    const room = new Waits();
    let ending: Ending | undefined;
    let isTold = false;
    for (const event of events) {
      ending = endingOf(event, this.remote);
      if (ending !== undefined) break;
      if (event.type === 'output.text.delta') room.add(this.text(readData(event, 'output.text.delta').text));
      else isTold = this.other(event, room) || isTold;
    }
    const last = events.at(-1)?.sequence ?? 0;
    if (ending === undefined && (isTold || this.isCursorDue())) {
      void this.journal.record({ after: last }).catch(() => undefined);
      this.recordedAt = performance.now();
      this.unrecordedText = 0;
    }
    if (ending !== undefined) room.add(this.flush());
    await room.all();
    return ending;
  }

  private isCursorDue(): boolean {
    const since = performance.now() - this.recordedAt;
    const isDue = this.unrecordedText > TEXT_CURSOR_LENGTH || (this.unrecordedText > 0 && since > TEXT_CURSOR_MS);
    // What is held back would be behind the cursor and lost.
    return isDue && !this.gate.isHolding;
  }

  private text(piece: string): Promise<void> {
    this.unrecordedText += piece.length;
    return this.say(this.gate.push(piece));
  }

  private flush(): Promise<void> {
    return this.say(this.gate.flush());
  }

  private async say(text: string): Promise<void> {
    if (text !== '') await this.ctx.emit('output.text.delta', { text });
  }

  /** Whether the event left something in our log, or has to be remembered as seen. */
  private other(event: RemoteEvent, room: Waits): boolean {
    switch (event.type) {
      case 'provider.event':
        room.add(this.flush(), this.native(event));
        return true;
      case 'artifact.created':
        room.add(this.flush(), this.artifact(event));
        return true;
      case 'action.required': {
        const action = readData(event, 'action.required');
        this.questions.ask(action, 'event');
        return false;
      }
      case 'action.responded':
        this.questions.withdraw(readData(event, 'action.responded').actionId);
        return true;
      default:
        // run.queued, run.started, output.text.done, and what a later version of the contract may add.
        return false;
    }
  }

  private native({ sequence, data }: RemoteEvent): Promise<void> {
    const { name } = data;
    if (name === 'runtime.action_withdrawn') this.questions.withdraw(String(data.actionId));
    const problem = jsonProblem(data);
    if (problem !== undefined) return this.dropped(sequence, name, problem);
    const clean = this.remote.redactor.data(data) as JsonObject;
    // What belongs to the runtime at the other end is an observation here.
    const ours = nativeNameProblem(name) === undefined ? String(name) : clip(`remote.${String(name)}`, 200);
    if (nativeNameProblem(ours) !== undefined) return this.dropped(sequence, name, 'it has no proper name');
    const event = { ...clean, name: ours };
    if (jsonBytes(event) > MAX_EVENT_BYTES) return this.dropped(sequence, name, `it takes ${jsonBytes(event)} bytes`);
    return this.ctx.emit('provider.event', event);
  }

  /** An event that our log cannot hold is told of, never silently left out. */
  private dropped(sequence: number, name: Json | undefined, why: string): Promise<void> {
    const of = typeof name === 'string' ? { event: clip(this.remote.redactor.text(name), 200) } : {};
    return this.ctx.emit('provider.event', { name: 'remote.event_dropped', sequence, ...of, why: clip(why, 500) });
  }

  private async artifact(event: RemoteEvent): Promise<void> {
    const { id, name, mediaType, uri } = readData(event, 'artifact.created');
    const ours = ID_PATTERN.test(id) ? id : idFrom('art', createHash('sha256').update(id).digest());
    if (this.artifacts.has(ours)) return;
    this.artifacts.add(ours);
    const { redactor } = this.remote;
    const metadata = redactor.data(event.data.metadata ?? {}) as JsonObject;
    const place = uri === undefined ? {} : { uri: redactor.text(uri) };
    const descriptor = { id: ours, name: redactor.text(name), mediaType, ...place, metadata };
    const problem = artifactProblem(descriptor);
    if (problem !== undefined) return this.dropped(event.sequence, event.type, problem);
    await this.ctx.artifact(descriptor);
  }
}

function artifactProblem(descriptor: ArtifactDescriptor): string | undefined {
  const [issue] = artifactDescriptorSchema.safeParse(descriptor).error?.issues ?? [];
  if (issue !== undefined) return `${issue.path.join('.')}: ${issue.message}`;
  const bytes = jsonBytes(descriptor.metadata ?? {});
  return bytes > MAX_ARTIFACT_BYTES ? `its metadata takes ${bytes} bytes` : undefined;
}

/** What has to be waited for at the end. Until then a rejection harms nobody. */
class Waits {
  private readonly promises: Promise<unknown>[] = [];

  add(...promises: readonly Promise<unknown>[]): void {
    for (const promise of promises) {
      promise.catch(() => undefined);
      this.promises.push(promise);
    }
  }

  async all(): Promise<void> {
    await Promise.all(this.promises);
  }
}

/** The end that a terminal event tells of. */
export function endingOf(event: RemoteEvent, { redactor }: Remote): Ending | undefined {
  switch (event.type) {
    case 'run.completed': {
      const { finalOutput } = readData(event, 'run.completed');
      return { how: 'completed', ...(finalOutput === undefined ? {} : { finalOutput: redactor.text(finalOutput) }) };
    }
    case 'run.failed': {
      const { code, message } = readData(event, 'run.failed');
      const said = redactor.text(message);
      // A code of an execution alone (EXECUTION_TIMEOUT, PROVIDER_LOST) would tell of ours, not of that one.
      const error = isErrorCode(code)
        ? new HoldfastError(code, said)
        : new HoldfastError(
            'PROVIDER_ERROR',
            clip(`the remote execution failed with ${code}: ${said}`, MAX_MESSAGE_LENGTH),
          );
      return { how: 'failed', error };
    }
    case 'run.cancelled': {
      const { reason, confirmation } = readData(event, 'run.cancelled');
      return {
        how: 'cancelled',
        ...(confirmation === undefined ? {} : { confirmation }),
        ...(reason === undefined ? {} : { reason: redactor.text(reason) }),
      };
    }
    default:
      return undefined;
  }
}
