/** One story in the document's examples: a deploy that asks first. A test holds each against its schema. */
import { actionRequestSchema, withDigest } from '../protocol/action.js';
import type { Json } from '../protocol/json.js';

export const CONVERSATION_ID = 'conv_m5x2kq7wz3rjv6ya4tnbd2hcpe';
export const EXECUTION_ID = 'exec_q3f7w2nl5xk6m4yzj2rdva7hte';
export const ACTION_ID = 'act_h2v6r3kzq5w7nlx4ymjt2dbace';
const PROVIDER_ID = 'opencode';
const CREATED_AT = '2026-09-02T10:00:00.000Z';
const ASKED_AT = '2026-09-02T10:00:07.000Z';
const ENDED_AT = '2026-09-02T10:02:31.000Z';
const payload: Json = { command: 'npm run deploy -- staging' };

export const createConversation = { metadata: { customer: 'c-17' }, closeAfterIdleDays: 30 };
export const conversation = {
  id: CONVERSATION_ID,
  createdAt: CREATED_AT,
  metadata: { customer: 'c-17' },
  closed: false,
};

export const startExecution = {
  conversationId: CONVERSATION_ID,
  providerId: PROVIDER_ID,
  input: 'Deploy the branch to staging and tell me what changed.',
  requiredCapabilities: ['action.approval'],
  metadata: { ticket: 'OPS-112' },
  idempotencyKey: 'ops-112-deploy',
  timeoutSeconds: 3600,
};

export const actionRequest = withDigest(
  actionRequestSchema.omit({ digest: true }).parse({
    id: ACTION_ID,
    executionId: EXECUTION_ID,
    kind: 'approval',
    title: 'Run `npm run deploy -- staging`?',
    payload,
    createdAt: ASKED_AT,
  }),
);

const execution = {
  id: EXECUTION_ID,
  conversationId: CONVERSATION_ID,
  providerId: PROVIDER_ID,
  input: startExecution.input,
  requiredCapabilities: startExecution.requiredCapabilities,
  effectiveConfig: {},
  metadata: startExecution.metadata,
  createdAt: CREATED_AT,
  startedAt: '2026-09-02T10:00:01.000Z',
};
export const waiting = {
  ...execution,
  state: 'awaiting_approval',
  updatedAt: ASKED_AT,
  pendingActions: [actionRequest],
};
export const succeeded = {
  ...execution,
  state: 'succeeded',
  updatedAt: ENDED_AT,
  endedAt: ENDED_AT,
  finalOutput: 'Deployed: two changed pages.',
  usage: { inputTokens: 8_412, outputTokens: 390, costUsd: 0.031 },
  pendingActions: [],
};

/** With the digest of what the person saw, so that nothing else is approved. */
export const actionResponse = {
  approved: true,
  metadata: { by: 'ada' },
  expectedDigest: actionRequest.digest,
  audit: true,
};

export const event = {
  id: `${EXECUTION_ID}:4`,
  executionId: EXECUTION_ID,
  sequence: 4,
  type: 'output.text.delta',
  time: ASKED_AT,
  data: { text: 'Two pages changed. ' },
};

export const artifact = {
  id: 'art_d7k4w2x6nq3rzv5ymjl2tbhace',
  executionId: EXECUTION_ID,
  name: 'deploy.log',
  mediaType: 'text/plain',
  createdAt: ENDED_AT,
  uri: 'https://artifacts.example/deploy.log',
  metadata: {},
};

export const cancelRequest = { reason: 'the branch was withdrawn' };
export const readTokenRequest = { ttlSeconds: 300 };
export const problem = { code: 'NOT_FOUND', message: `there is no execution ${EXECUTION_ID}` };
