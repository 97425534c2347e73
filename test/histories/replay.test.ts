import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Worker } from '@temporalio/worker';
import { beforeAll, describe, expect, it } from 'vitest';
import { installRuntime } from '../../worker/runtime.js';
import { workflowBundle } from '../../worker/workflow-bundle.js';

/** One recorded history per kind of ending; a change of workflow code has to be able to go on with each of them. */
const folder = fileURLToPath(new URL('.', import.meta.url));
const names = readdirSync(folder).filter((name) => name.endsWith('.json'));

let bundle: Awaited<ReturnType<typeof workflowBundle>>;

beforeAll(async () => {
  installRuntime();
  bundle = await workflowBundle();
});

function load(name: string): { events: Record<string, unknown>[] } {
  return JSON.parse(readFileSync(`${folder}/${name}`, 'utf8')) as { events: Record<string, unknown>[] };
}

async function replay(history: unknown): Promise<void> {
  await Worker.runReplayHistory({ workflowBundle: bundle }, history, 'default.exec_replayed');
}

describe('a history recorded by an earlier version', () => {
  it('is there for each kind of ending', () => {
    expect(names.map((name) => name.replace('.json', '')).sort()).toEqual([
      'cancelled',
      'cancelled-by-signal-alone',
      'failed',
      'lost',
      'recovered',
      'rolled-over',
      'succeeded',
      'suspended-and-resumed',
      'timed-out',
    ]);
  });

  it.each(names)('replays: %s', async (name) => {
    await replay(load(name));
  });

  it('fails the replay when the workflow would do something else', async () => {
    const history = load('succeeded.json');
    const scheduled = history.events.find((event) => event.activityTaskScheduledEventAttributes !== undefined);
    const attributes = scheduled?.activityTaskScheduledEventAttributes as { activityType: { name: string } };
    attributes.activityType.name = 'something-else';
    await expect(replay(history)).rejects.toThrow(/nondeterminism|determinism/i);
  });

  it('fails the replay when a mark is not made', async () => {
    const history = load('recovered.json');
    const at = history.events.findIndex((event) => event.workflowPropertiesModifiedEventAttributes !== undefined);
    expect(at).toBeGreaterThan(0);
    history.events.splice(at, 1);
    history.events.forEach((event, i) => {
      event.eventId = String(i + 1);
    });
    await expect(replay(history)).rejects.toThrow();
  });
});
