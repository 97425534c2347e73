/**
 * The one entity workflow that knows which providers there are. Workers announce `{manifest, taskQueue, pool}` when
 * they start; it is kept in the memo, so that a client reads it with one `describe` and no worker.
 */
import {
  condition,
  log,
  makeContinueAsNewFunc,
  setDefaultSignalHandler,
  upsertMemo,
  workflowInfo,
} from '@temporalio/workflow';
import { z } from 'zod';
import { canonicalJson, type Json, jsonBytes } from '../protocol/json.js';
import { MAX_CATALOG_BYTES } from '../protocol/limits.js';
import { providerManifestSchema } from '../protocol/manifest.js';
import { CATALOG_ANNOUNCE, type CatalogEntry, type CatalogStart, DEFAULT_POOL_SETTINGS, MEMO } from './messages.js';
import { readable } from './readable.js';

const announcementSchema = z.looseObject({
  manifest: providerManifestSchema,
  taskQueue: z.string().min(1),
  pool: z
    .looseObject({
      heartbeatTimeoutMs: z.number().min(1).default(DEFAULT_POOL_SETTINGS.heartbeatTimeoutMs),
      leaseMs: z.number().min(1).default(DEFAULT_POOL_SETTINGS.leaseMs),
      stopGraceMs: z.number().min(1).default(DEFAULT_POOL_SETTINGS.stopGraceMs),
    })
    .default({ ...DEFAULT_POOL_SETTINGS }),
});

export async function catalog(start: CatalogStart): Promise<void> {
  // Without a prototype, so that an id like `__proto__` is a key like any other.
  const entries: Record<string, CatalogEntry> = Object.assign(Object.create(null), readable(start).entries);
  let changed = false;
  setDefaultSignalHandler((name, announced) => {
    const parsed = announcementSchema.safeParse(announced);
    if (name !== CATALOG_ANNOUNCE || !parsed.success) {
      log.warn('the catalog dropped a signal', { signal: name });
      return;
    }
    const { manifest, taskQueue, pool } = parsed.data;
    const entry = { manifest, taskQueue, pool } as CatalogEntry;
    const known = entries[manifest.id];
    if (known !== undefined && canonicalJson(known as unknown as Json) === canonicalJson(entry as unknown as Json))
      return;
    // A memo over the server's limit would end this workflow, and with it what every other worker announced.
    if (jsonBytes({ ...entries, [manifest.id]: entry }) > MAX_CATALOG_BYTES) {
      log.warn('the catalog is full and dropped an announcement', { provider: manifest.id });
      return;
    }
    entries[manifest.id] = entry;
    changed = true;
  });
  for (;;) {
    await condition(() => changed || workflowInfo().continueAsNewSuggested);
    if (changed) {
      changed = false;
      upsertMemo({ [MEMO.catalog]: entries });
    } else break;
  }
  // An upserted memo does not pass to the next run by itself.
  await makeContinueAsNewFunc<typeof catalog>({ memo: { [MEMO.catalog]: entries } })({ ...start, entries });
}
