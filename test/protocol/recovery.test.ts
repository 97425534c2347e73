import { describe, expect, it } from 'vitest';
import { MAX_RECOVERIES, MAX_RECOVERIES_WITHOUT_PROGRESS, MAX_UNTAKEN_ATTEMPTS } from '../../protocol/limits.js';
import { artifact, Log } from './log-driver.js';

const finalOutput = (log: Log) => (log.state.result as { finalOutput?: string } | undefined)?.finalOutput;

describe('a lost attempt', () => {
  it('without a journal ends as PROVIDER_LOST, with the open action withdrawn', () => {
    const log = new Log().start('none');
    log.ask('act_1');
    log.lose('its host is gone');
    expect(log.state).toMatchObject({
      state: 'failed',
      result: { code: 'PROVIDER_LOST', message: 'its host is gone' },
    });
    expect(log.state.open).toBeUndefined();
    expect(log.types()).toEqual(['run.queued', 'run.started', 'action.required', 'run.failed']);
  });

  it('without a journal may be tried again as long as its provider was never called', () => {
    const log = new Log();
    log.announce('none');
    log.lose();
    expect(log.state.state).toBe('starting');
    log.mark({ kind: 'attempt', attempt: 2 });
    log.start('none');
    expect(log.types()).toEqual(['run.queued', 'run.started']);
    expect(log.state.host?.attempt).toBe(2);
  });

  it('with a journal is recovered: the log says from where, and the text goes back', () => {
    const log = new Log().start('journal');
    log.say('kept ');
    log.append({ kind: 'record', entry: { step: 1 } });
    const resumed = log.state.sequence;
    log.say('lost ');
    log.recover();
    expect(log.named('runtime.recovered')).toEqual([{ name: 'runtime.recovered', attempt: 2, resumedFrom: resumed }]);
    expect(log.types().filter((type) => type === 'run.started')).toHaveLength(1);
    expect(log.state).toMatchObject({ state: 'running', text: 'kept ', attempt: 2 });
    log.say('said again');
    log.append({ kind: 'completed' });
    expect(finalOutput(log)).toBe('kept said again');
  });

  it('without any entry goes back to the beginning', () => {
    const log = new Log().start('journal');
    log.say('all of it');
    log.recover();
    expect(log.named('runtime.recovered')).toMatchObject([{ resumedFrom: 0 }]);
    expect(log.state.text).toBe('');
  });

  it('keeps its entries, in order, for the next', () => {
    const log = new Log().start('journal');
    log.append({ kind: 'record', entry: 1 }, { kind: 'text', text: 'x' }, { kind: 'record', entry: null });
    log.recover();
    log.append({ kind: 'record', entry: [3] });
    expect(log.state.journal).toEqual({ count: 3, bytes: 1 + 4 + 3, entries: [1, null, [3]] });
    expect(log.entries).toEqual([1, null, [3]]);
    // An entry has no sequence of its own.
    expect(log.types()).toEqual(['run.queued', 'run.started', 'output.text.delta', 'provider.event']);
  });

  it('adds nothing more: its batches, its announcement and its end are those of a stranger', () => {
    const log = new Log().start('journal');
    const token = log.state.host?.token;
    log.lose();
    const late = [
      () => log.signal('append', { token, batch: 9, items: [{ kind: 'text', text: 'zombie' }] }),
      () => log.announce('journal', 1),
      () => log.lose('again'),
    ];
    for (const act of late) {
      const before = log.state;
      act();
      expect(log.state).toBe(before);
    }
    log.mark({ kind: 'attempt', attempt: 2 });
    log.announce('journal');
    log.append({ kind: 'started' });
    const before = log.state;
    log.signal('append', { token, batch: 10, items: [{ kind: 'text', text: 'zombie' }] });
    log.mark({ kind: 'settled', attempt: 1, result: { how: 'lost', message: 'late' } });
    expect(log.state).toBe(before);
  });

  it('starts once, however often its host says so', () => {
    const log = new Log().start('journal');
    log.ask('act_1');
    log.respond('act_1', { approved: true });
    const { head, answers } = log.state;
    log.append({ kind: 'started', took: 'act_1' });
    expect(log.state).toMatchObject({ head, answers });
    expect(log.types().filter((type) => type === 'run.started')).toHaveLength(1);
  });

  it('makes an artifact again without a second event', () => {
    const log = new Log().start('journal');
    const made = artifact('art_1');
    log.append({ kind: 'artifact', artifact: made });
    log.recover();
    log.append({ kind: 'artifact', artifact: made });
    expect(log.types().filter((type) => type === 'artifact.created')).toHaveLength(1);
  });
});

describe('the bounds of recovery', () => {
  it(`are ${MAX_RECOVERIES_WITHOUT_PROGRESS} without a new entry`, () => {
    const log = new Log().start('journal');
    for (let i = 0; i < MAX_RECOVERIES_WITHOUT_PROGRESS; i++) {
      log.recover();
      expect(log.state.state).toBe('running');
    }
    log.lose();
    expect(log.state).toMatchObject({ state: 'failed', result: { code: 'PROVIDER_LOST' } });
    expect(log.named('runtime.recovered')).toHaveLength(MAX_RECOVERIES_WITHOUT_PROGRESS);
  });

  it(`are ${MAX_RECOVERIES} in all, whatever was journaled`, () => {
    const log = new Log().start('journal');
    for (let i = 0; i < MAX_RECOVERIES; i++) {
      log.append({ kind: 'record', entry: i });
      log.recover();
      expect(log.state.state).toBe('running');
    }
    log.append({ kind: 'record', entry: 'last' });
    log.lose();
    expect(log.state).toMatchObject({ state: 'failed', result: { code: 'PROVIDER_LOST' } });
  });

  it('count attempts that were never announced too', () => {
    const log = new Log();
    for (let i = 0; i < MAX_RECOVERIES_WITHOUT_PROGRESS; i++) {
      log.lose('nobody took it');
      log.mark({ kind: 'attempt', attempt: log.state.attempt + 1 });
    }
    log.lose('nobody took it');
    expect(log.state).toMatchObject({ state: 'failed', result: { code: 'PROVIDER_LOST' } });
    // No provider was ever called.
    expect(log.types()).toEqual(['run.queued', 'run.failed']);
  });

  it(`leave out attempts that no host took, of which ${MAX_UNTAKEN_ATTEMPTS} in a row are too many`, () => {
    const log = new Log();
    const untaken = { how: 'lost', message: 'nobody took it', untaken: true } as const;
    const miss = () => {
      log.mark({ kind: 'settled', attempt: log.state.attempt, result: untaken });
      if (log.state.result === undefined) log.mark({ kind: 'attempt', attempt: log.state.attempt + 1 });
    };
    for (let i = 1; i < MAX_UNTAKEN_ATTEMPTS; i++) miss();
    log.start('journal');
    expect(log.state).toMatchObject({ state: 'running', recoveries: { total: 0, sinceEntry: 0 } });
    log.lose();
    log.mark({ kind: 'attempt', attempt: log.state.attempt + 1 });
    for (let i = 1; i < MAX_UNTAKEN_ATTEMPTS; i++) miss();
    expect(log.state).toMatchObject({ state: 'running', recoveries: { total: 1 } });
    // A host took one and said nothing to the log: from there they count anew.
    log.lose();
    log.mark({ kind: 'attempt', attempt: log.state.attempt + 1 });
    for (let i = 1; i < MAX_UNTAKEN_ATTEMPTS; i++) miss();
    expect(log.state).toMatchObject({ state: 'running', recoveries: { total: 2 } });
    miss();
    expect(log.state).toMatchObject({ state: 'failed', result: { code: 'PROVIDER_LOST' } });
  });

  it('do not hold for an attempt that its worker refuses: that is the end', () => {
    const log = new Log();
    const result = { how: 'refused', code: 'CAPABILITY_UNSUPPORTED', message: 'no extension.mcp here' } as const;
    log.mark({ kind: 'settled', attempt: 1, result });
    expect(log.types()).toEqual(['run.queued', 'run.failed']);
    expect(log.state.result).toMatchObject({ code: 'CAPABILITY_UNSUPPORTED' });
  });
});

describe('an action of a lost attempt', () => {
  const asking = () => {
    const log = new Log().start('journal');
    log.ask('act_1');
    return log;
  };

  it('stays open, and can be answered, while the attempt is recovered', () => {
    const log = asking();
    log.lose();
    expect(log.state).toMatchObject({ state: 'awaiting_approval', open: { request: { id: 'act_1' } } });
    expect(log.respond('act_1', { approved: true })).toEqual({ accepted: true });
    expect(log.state.state).toBe('running');
  });

  it('is adopted by a recovered attempt that asks the same', () => {
    const log = asking();
    log.recover();
    expect(log.state.open).toMatchObject({ request: { id: 'act_1' }, attempt: 1 });
    log.append({ kind: 'adopt', actionId: 'act_1' });
    expect(log.state.open).toMatchObject({ request: { id: 'act_1' }, attempt: 2 });
    expect(log.types().filter((type) => type === 'action.required')).toHaveLength(1);
    log.respond('act_1', { approved: false });
    expect(log.state.answers).toMatchObject([{ action: { id: 'act_1' }, attempt: 2 }]);
  });

  it('is withdrawn, on record, by anything else that it asks', () => {
    const log = asking();
    log.recover();
    log.ask('act_2', { title: 'Something else?' });
    expect(log.named('runtime.action_withdrawn')).toMatchObject([{ actionId: 'act_1' }]);
    expect(log.state.open?.request.id).toBe('act_2');
    expect(log.respond('act_1', { approved: true })).toMatchObject({ code: 'ACTION_ALREADY_RESOLVED' });
  });

  it('keeps its id for itself', () => {
    const log = asking();
    log.recover();
    const { events } = log.ask('act_1', { title: 'Something else?' });
    expect(events).toEqual([]);
    expect(log.state.open).toMatchObject({ request: { title: 'May I?' }, attempt: 1 });
  });

  it('is withdrawn by its end', () => {
    const log = asking();
    log.recover();
    log.append({ kind: 'completed' });
    expect(log.state.open).toBeUndefined();
    expect(log.types()).not.toContain('action.responded');
    expect(log.respond('act_1', { approved: true })).toMatchObject({ code: 'INVALID_STATE', how: 'withdrawn' });
  });
});

describe('an answer after the last journal entry', () => {
  const answered = () => {
    const log = new Log().start('journal');
    log.append({ kind: 'record', entry: 1 });
    log.ask('act_1');
    log.respond('act_1', { approved: true });
    return log;
  };

  it('is held for a recovery, also after it was handed out', () => {
    const log = answered();
    log.append({ kind: 'taken', actionId: 'act_1' });
    expect(log.state.answers).toMatchObject([{ action: { id: 'act_1' }, takenBy: 1 }]);
    log.recover();
    log.append({ kind: 'adopt', actionId: 'act_1' }, { kind: 'taken', actionId: 'act_1' });
    expect(log.state.answers).toMatchObject([{ attempt: 2, takenBy: 2 }]);
  });

  it('is dropped at the next entry, since that holds what came of it', () => {
    const log = answered();
    log.append({ kind: 'taken', actionId: 'act_1' }, { kind: 'record', entry: 2 });
    expect(log.state.answers).toEqual([]);
  });

  it('is not dropped at an entry while its attempt has yet to be told', () => {
    const log = answered();
    log.append({ kind: 'record', entry: 'from beside' });
    expect(log.state.answers).toMatchObject([{ action: { id: 'act_1' }, attempt: 1 }]);
  });

  it('is dropped at an entry of a recovered attempt that went another way', () => {
    const log = answered();
    log.recover();
    log.append({ kind: 'record', entry: 2 });
    expect(log.state.answers).toEqual([]);
  });

  it('is not kept for a provider without recovery', () => {
    const log = new Log().start('none');
    log.ask('act_1');
    log.respond('act_1', { approved: true });
    expect(log.state.answers).toHaveLength(1);
    log.append({ kind: 'taken', actionId: 'act_1' });
    expect(log.state.answers).toEqual([]);
  });

  it('of any size is held, and of many only the newest', () => {
    const log = new Log().start('journal');
    for (let i = 1; i <= 8; i++) {
      log.ask(`act_${i}`, { kind: 'input', payload: 'p'.repeat(60_000) });
      expect(log.respond(`act_${i}`, { value: 'v'.repeat(60_000) })).toEqual({ accepted: true });
      log.append({ kind: 'taken', actionId: `act_${i}` });
      expect(log.state.answers.map((answer) => answer.action.id)).toEqual([`act_${i}`]);
    }
  });
});

describe('a suspension', () => {
  const suspended = () => {
    const log = new Log().start('journal');
    log.say('before ');
    log.append({ kind: 'record', entry: { at: 1 } });
    log.ask('act_1', {}, true);
    return log;
  };

  it('ends its attempt: nothing more of it is taken', () => {
    const log = suspended();
    const before = log.state;
    log.say('after the end');
    log.append({ kind: 'completed' });
    expect(log.state).toEqual({ ...before, host: { ...before.host, lastBatch: log.state.host?.lastBatch } });
    expect(log.state.state).toBe('awaiting_approval');
  });

  it.each([
    ['lost', { how: 'lost', message: 'its worker died' }],
    ['refused', { how: 'refused', code: 'INTERNAL_ERROR', message: 'no' }],
  ] as const)('survives that its attempt was %s afterwards', (_, result) => {
    const log = suspended();
    const before = log.state;
    log.mark({ kind: 'settled', attempt: 1, result });
    expect(log.state).toBe(before);
  });

  it('goes on with its answer, as no recovery', () => {
    const log = suspended();
    log.respond('act_1', { approved: true });
    expect(log.state.answers).toMatchObject([{ suspended: true, attempt: 1 }]);
    log.mark({ kind: 'attempt', attempt: 2 });
    log.announce('journal');
    log.append({ kind: 'started', took: 'act_1' }, { kind: 'text', text: 'after' }, { kind: 'completed' });
    expect(log.named('runtime.recovered')).toEqual([]);
    expect(finalOutput(log)).toBe('before after');
    expect(log.state.recoveries).toEqual({ total: 0, sinceEntry: 0 });
  });

  it('has its answer again when the attempt that was given it is lost, from the suspension on', () => {
    const log = suspended();
    const asked = log.state.sequence;
    log.respond('act_1', { approved: true });
    log.mark({ kind: 'attempt', attempt: 2 });
    log.announce('journal');
    log.append({ kind: 'started', took: 'act_1' }, { kind: 'text', text: 'half' });
    log.recover('journal', 'act_1');
    expect(log.named('runtime.recovered')).toMatchObject([{ attempt: 3, resumedFrom: asked }]);
    expect(log.state).toMatchObject({ text: 'before ', answers: [{ action: { id: 'act_1' }, takenBy: 3 }] });
  });

  it('can be cancelled with nobody there', () => {
    const log = suspended();
    log.signal('cancel');
    log.mark({ kind: 'stopped', confirmation: 'not_running' });
    expect(log.events.at(-1)).toMatchObject({ type: 'run.cancelled', data: { confirmation: 'not_running' } });
  });

  it('can adopt what a lost attempt had asked', () => {
    const log = new Log().start('journal');
    log.ask('act_1');
    log.recover();
    log.append({ kind: 'adopt', actionId: 'act_1', suspend: true });
    expect(log.state).toMatchObject({ open: { attempt: 2, suspended: true }, host: { suspended: true } });
  });
});
