/** Durations in milliseconds, as configurations give them. */
import { z } from 'zod';

/** Node fires a longer timer at once (24.8 days). */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** At least one; what a timer can hold. */
export const milliseconds = z.int().min(1).max(MAX_TIMER_MS);
