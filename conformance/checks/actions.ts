/** Questions, and their answers. */
import { type ActionRequest, type ActionResponse, approvalOptions } from '../../protocol/action.js';
import { type Check, type Finished, type Kit, must, mustEqual, refusalOf } from '../kit.js';
import { says } from './lifecycle.js';

interface Answered extends Finished {
  readonly action: ActionRequest;
  /** What came of an answer that is none, and whether the action was open after it. */
  readonly invalid: string;
  readonly openAfterInvalid: boolean;
  /** What came of a yes to another payload. */
  readonly unseen: string;
  /** What came of five answers at once, and of the first accepted one when it was repeated. */
  readonly race: readonly string[];
  readonly repeated: string;
}

export const actionChecks: readonly Check[] = [
  {
    name: 'actions.approval',
    async run(kit) {
      const scenario = await kit.needs('action.approval', 'approval');
      const { action, execution, events } = await approved(kit);
      mustEqual('the kind of the action', action.kind, 'approval');
      mustEqual('action.required', events.find(({ type }) => type === 'action.required')?.data, action);
      mustEqual('action.responded', responses({ events }), [{ actionId: action.id, approved: true }]);
      must(execution.state === 'succeeded', `after a yes it is ${execution.state} (${execution.error?.message})`);
      says(execution.finalOutput, scenario.approved);
      return action.title;
    },
  },
  {
    name: 'actions.rejection',
    async run(kit) {
      const scenario = await kit.needs('action.approval', 'approval');
      const { id } = await kit.start(scenario);
      const action = await openAction(kit, id);
      await kit.client.respond(id, action.id, answerTo(action, false));
      const { execution, events } = await kit.finish(id);
      mustEqual('action.responded', responses({ events }), [{ actionId: action.id, approved: false }]);
      must(execution.state === 'succeeded', `after a no it is ${execution.state} (${execution.error?.message})`);
      says(execution.finalOutput, scenario.rejected);
      return undefined;
    },
  },
  {
    name: 'actions.input',
    async run(kit) {
      const scenario = await kit.needs('action.input', 'input');
      const { id } = await kit.start(scenario);
      const action = await openAction(kit, id);
      mustEqual('the kind of the action', action.kind, 'input');
      mustEqual('an input without a value', await refusalOf(kit.client.respond(id, action.id, {})), 'VALIDATION_ERROR');
      const { answer: value = 'blue' } = scenario;
      await kit.client.respond(id, action.id, { value });
      const { execution, events } = await kit.finish(id);
      mustEqual('action.responded', responses({ events }), [{ actionId: action.id }]);
      must(execution.state === 'succeeded', `after the answer it is ${execution.state} (${execution.error?.message})`);
      says(execution.finalOutput, scenario.says);
      return undefined;
    },
  },
  {
    name: 'actions.invalid',
    async run(kit) {
      await kit.needs('action.approval', 'approval');
      const { invalid, openAfterInvalid } = await approved(kit);
      mustEqual('an approval that says neither yes nor no', invalid, 'VALIDATION_ERROR');
      must(openAfterInvalid, 'an answer that is none closed the action');
      return undefined;
    },
  },
  {
    name: 'actions.digest',
    async run(kit) {
      await kit.needs('action.approval', 'approval');
      const { unseen, openAfterInvalid } = await approved(kit);
      mustEqual('a yes to another payload', unseen, 'INVALID_STATE');
      must(openAfterInvalid, 'a yes to another payload closed the action');
      return undefined;
    },
  },
  {
    name: 'invariant.9-one-answer',
    async run(kit) {
      await kit.needs('action.approval', 'approval');
      const { race, repeated, events, action } = await approved(kit);
      const expected = ['accepted', ...Array(race.length - 1).fill('ACTION_ALREADY_RESOLVED')].sort();
      mustEqual('five answers at once', [...race].sort(), expected);
      mustEqual('the accepted one, repeated', repeated, 'accepted');
      mustEqual('how often it was answered', responses({ events }).length, 1);
      must(events.filter(({ type }) => type === 'action.required').length === 1, `${action.id} was asked again`);
      return undefined;
    },
  },
];

/** The scenario `approval`, answered with a yes; once for all checks that look at it. */
function approved(kit: Kit): Promise<Answered> {
  return kit.once('approved', async () => {
    const { id } = await kit.start(kit.scenario('approval'));
    const action = await openAction(kit, id);
    const invalid = await refusalOf(kit.client.respond(id, action.id, {}));
    const other = { ...answerTo(action, true), expectedDigest: '0'.repeat(64) };
    const unseen = await refusalOf(kit.client.respond(id, action.id, other));
    const { pendingActions } = await kit.client.getExecution(id);
    const yes = answerTo(action, true);
    const ids = [1, 2, 3, 4, 5].map((n) => `resp_conformance_${n}`);
    const race = await Promise.all(
      ids.map((responseId) => refusalOf(kit.client.respond(id, action.id, yes, { responseId }))),
    );
    const winner = ids[race.indexOf('accepted')] ?? ids[0] ?? '';
    const repeated = await refusalOf(kit.client.respond(id, action.id, yes, { responseId: winner }));
    const openAfterInvalid = pendingActions.some((each) => each.id === action.id);
    return { ...(await kit.finish(id)), action, invalid, openAfterInvalid, unseen, race, repeated };
  });
}

async function openAction(kit: Kit, id: string): Promise<ActionRequest> {
  const { pendingActions } = await kit.until(id, 'asking', (execution) => execution.pendingActions.length > 0);
  const [action] = pendingActions;
  must(action !== undefined, 'it has no open action');
  const { state } = await kit.client.getExecution(id);
  mustEqual('the state while it asks', state, `awaiting_${action.kind}`);
  return action;
}

/** A yes or a no; where several options fit, the first of them. */
function answerTo(action: ActionRequest, isYes: boolean): ActionResponse {
  const fitting = approvalOptions(action.payload)?.filter(
    ({ kind }) => kind === (isYes ? 'allow_once' : 'reject_once'),
  );
  const [first] = fitting ?? [];
  return { approved: isYes, ...(first === undefined ? {} : { value: { optionId: first.id } }) };
}

function responses({ events }: Pick<Finished, 'events'>): unknown[] {
  return events.flatMap((event) => (event.type === 'action.responded' ? [event.data] : []));
}
