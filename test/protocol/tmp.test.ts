import { it } from 'vitest';
import { checked } from './checked.js';
import { history } from './random-history.js';

it('stat', () => {
  let n = 0,
    len = 0,
    ev = 0,
    started = 0,
    sus = 0,
    ent = 0,
    resp = 0,
    rec = 0;
  const v: Record<string, number> = {};
  checked(
    history,
    (h) => {
      n++;
      len += h.moments.length;
      ev += h.events.length;
      if (h.state.hasStarted) started++;
      if (h.moments.some((m) => m.step.state.host?.suspended)) sus++;
      if (h.events.some((e) => e.type === 'action.responded')) resp++;
      if (h.events.some((e) => e.type === 'provider.event' && e.data.name === 'runtime.recovered')) rec++;
      if (h.moments.some((m) => m.step.entries.length)) ent++;
      if (h.moments.some(({ before, step }) => (step.state.open?.attempt ?? 0) > (before.open?.attempt ?? 9)))
        v.adopt = (v.adopt ?? 0) + 1;
      for (const m of h.moments) {
        const x = m.step.verdict?.verdict;
        if (x && !x.accepted) v[x.code] = (v[x.code] ?? 0) + 1;
      }
      const r = h.state.result;
      const c = r && 'code' in r ? r.code : h.state.state;
      v[c] = (v[c] ?? 0) + 1;
    },
    1000,
  );
  console.log({ n, len: len / n, ev: ev / n, started, sus, ent, resp, rec, v });
});
