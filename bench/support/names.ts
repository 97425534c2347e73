/** The bench's providers: without, and with turns in their conversation. */
export const PROVIDER = 'bench';
export const TURNS_PROVIDER = 'bench-turns';
