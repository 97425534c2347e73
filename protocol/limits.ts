/**
 * Every bound of the contract in one place, in bytes of encoded JSON unless it says otherwise. They are chosen so that
 * the state which a run hands to the next one stays under Temporal's limit of 2 MB for one payload (DESIGN §3, Rollover).
 */
export const KIB = 1024;

/** A whole start request. */
export const MAX_REQUEST_BYTES = 512 * KIB;
/** `finalOutput` and `output.text.done`: longer text keeps its end. */
export const MAX_TEXT_BYTES = 256 * KIB;
/** One text delta; a longer one is split where it is emitted. */
export const MAX_DELTA_BYTES = 64 * KIB;
/** One event that a provider emits. */
export const MAX_EVENT_BYTES = 128 * KIB;
/** `config`, as sent and as the provider parsed it. */
export const MAX_CONFIG_BYTES = 128 * KIB;
/** One action request, and one artifact descriptor's metadata. */
export const MAX_ACTION_BYTES = 64 * KIB;
export const MAX_ARTIFACT_BYTES = 8 * KIB;
/** All artifact ids of an execution are part of its state, so ids are short and counted. */
export const MAX_ARTIFACTS = 1000;
export const MAX_ACTIONS = 1000;
/** One answer. */
export const MAX_RESPONSE_BYTES = 64 * KIB;
/** One journal entry, and what of the journal may travel from run to run. */
export const MAX_JOURNAL_ENTRY_BYTES = 256 * KIB;
export const MAX_CARRIED_JOURNAL_BYTES = 128 * KIB;
/** One batch of a host, in one signal: with its envelope below the size from which the SDK warns. */
export const MAX_BATCH_BYTES = 480 * KIB;
/** Of a cause that is put on record: an error's message, a cancel's reason (UTF-16 units). */
export const MAX_MESSAGE_LENGTH = 4096;
/** One provider as a worker announces it, with the schema of its configuration; and all of the catalog, in one memo. */
export const MAX_MANIFEST_BYTES = 128 * KIB;
export const MAX_CATALOG_BYTES = 1536 * KIB;
/** One page of the `events` query. */
export const MAX_PAGE_BYTES = 1024 * KIB;
/** A native session reference. */
export const MAX_SESSION_BYTES = 4 * KIB;
/** `timeoutSeconds`: ten years. */
export const MAX_TIMEOUT_SECONDS = 315_360_000;
/** Attempts of one execution that end without a new journal entry, and in all (DESIGN §3, Crash recovery). */
export const MAX_RECOVERIES_WITHOUT_PROGRESS = 3;
export const MAX_RECOVERIES = 10;
/** Attempts in a row that no host took: their tasks went to workers that were frozen or cut off. */
export const MAX_UNTAKEN_ATTEMPTS = 30;
