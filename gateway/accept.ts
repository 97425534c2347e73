/** Which of JSON and an event stream a caller prefers: the Accept header, parsed (RFC 9110, 12.5.1). */

interface Preference {
  readonly q: number;
  /** 0 for any type at all, 1 for any of its kind, 2 for the type itself. */
  readonly precision: number;
}

/**
 * Whether to answer with an event stream: it is preferred to JSON, or liked as much and named more or equally closely.
 * Without a header, for any type at all, and when neither is acceptable, it is JSON.
 */
export function wantsEventStream(accept: string | undefined): boolean {
  const stream = preferenceFor('text', 'event-stream', accept ?? '*/*');
  const json = preferenceFor('application', 'json', accept ?? '*/*');
  if (stream.q === 0 || stream.precision === 0) return false;
  return stream.q > json.q || (stream.q === json.q && stream.precision >= json.precision);
}

/** The closest range decides, not the one with the highest weight. */
function preferenceFor(type: string, subtype: string, accept: string): Preference {
  let best: Preference = { q: 0, precision: -1 };
  for (const item of accept.toLowerCase().split(',')) {
    const [range = '', ...parameters] = item.split(';').map((part) => part.trim());
    const [kind, name] = range.split('/');
    const precision = range === `${type}/${subtype}` ? 2 : kind === type && name === '*' ? 1 : range === '*/*' ? 0 : -1;
    if (precision > best.precision) best = { q: weight(parameters), precision };
  }
  return best;
}

function weight(parameters: readonly string[]): number {
  const given = parameters.find((parameter) => /^q\s*=/.test(parameter));
  if (given === undefined) return 1;
  const q = Number(given.slice(given.indexOf('=') + 1).trim());
  return q >= 0 && q <= 1 ? q : 0;
}
