/** `holdfast doctor`: looks at everything that an execution needs, and says of each what to do when it is missing. */
import type { Connection } from '@temporalio/client';
import { translate } from '../../client/translate.js';
import { findOnPath } from '../../dev/run.js';
import { missingSearchAttributes, SEARCH_ATTRIBUTES } from '../../dev/search-attributes.js';
import { HoldfastError } from '../../protocol/errors.js';
import type { ProviderManifest } from '../../protocol/manifest.js';
import { providerQueue, WORKFLOW_QUEUE } from '../../workflows/messages.js';
import { connectTo } from '../cluster.js';
import { EXIT } from '../exit.js';
import { Output } from '../output.js';
import { type CommonFlags, clientOf, type Setting, settingOf } from '../session.js';

interface Finding {
  readonly check: string;
  /** `warn`: executions run without it. */
  readonly status: 'ok' | 'warn' | 'fail';
  readonly found: string;
  /** What to do about it; absent when it is well. */
  readonly advice?: string;
}

/** Agents that speak the Agent Client Protocol, by the command that starts them. */
const AGENTS = ['opencode', 'gemini', 'codex-acp', 'claude-agent-acp', 'qwen', 'goose'] as const;
const UI_MS = 3_000;
const CALL_MS = 3_000;
/** `TaskQueueType` of Temporal's API. */
const TASKS = { workflow: 1, activity: 2 } as const;
/** A poll lasts up to a minute and the server keeps names for five; one as old as this has not come back. */
const POLLER_AGE_MS = 75_000;
const MARKS = { ok: '✓', warn: '!', fail: '✗' } as const;

/** Exits with 1 when something is missing without which no execution runs. */
export async function doctor(flags: CommonFlags): Promise<number> {
  const out = new Output(flags.json === true);
  let worst: number = EXIT.ok;
  for await (const finding of examine(flags)) {
    const { check, status, found, advice } = finding;
    if (status === 'fail') worst = EXIT.failed;
    out.tell(
      finding,
      `${MARKS[status]} ${check.padEnd(17)} ${found}`,
      ...(advice === undefined ? [] : [`    → ${advice}`]),
    );
  }
  return worst;
}

async function* examine(flags: CommonFlags): AsyncGenerator<Finding> {
  yield runtime();
  let setting: Setting;
  try {
    setting = await settingOf(flags);
  } catch (error) {
    yield fail('configuration', messageOf(error), 'mend the file, or name another by --config');
    yield* agents();
    return;
  }
  yield ok('configuration', setting.file.path ?? 'no file, which is fine: the defaults');
  const { address, namespace } = setting.cluster;
  let connection: Connection | undefined;
  try {
    connection = await connectTo(setting.cluster);
    yield ok('server', `Temporal answers at ${address}`);
  } catch (error) {
    yield fail('server', messageOf(error), 'start one (holdfast dev), or name it by --address or TEMPORAL_ADDRESS');
  }
  try {
    yield await ui(setting);
    if (connection !== undefined) {
      yield await searchAttributes(connection, namespace);
      yield await workers(connection, namespace);
      yield* providers(connection, setting);
    }
  } finally {
    await connection?.close();
  }
  yield* agents();
}

function runtime(): Finding {
  const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return ok('node', process.versions.node);
  return fail('node', process.versions.node, 'install Node 20.19 or newer');
}

/** The UI is for people; nothing needs it. */
async function ui({ file, cluster }: Setting): Promise<Finding> {
  const isLocal = /^(localhost|127\.0\.0\.1|\[::1\]):/.test(cluster.address);
  const url = file.config.uiUrl ?? (isLocal ? 'http://127.0.0.1:8233' : undefined);
  const name = 'Temporal UI';
  if (url === undefined) return warn(name, 'not known where it is', 'name it in the configuration: "uiUrl"');
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(UI_MS) });
    if (response.ok) return ok(name, url);
    return warn(name, `${url} answers ${response.status}`, 'check "uiUrl" in the configuration');
  } catch {
    return warn(
      name,
      `nothing answers at ${url}`,
      'holdfast dev brings one; name another in the configuration: "uiUrl"',
    );
  }
}

async function searchAttributes(connection: Connection, namespace: string): Promise<Finding> {
  const name = 'search attributes';
  try {
    const deadline = Date.now() + CALL_MS;
    const missing = await connection.withDeadline(deadline, () => missingSearchAttributes(connection, namespace));
    if (missing.length === 0) return ok(name, `${SEARCH_ATTRIBUTES.join(', ')} in namespace ${namespace}`);
    return fail(name, `namespace ${namespace} lacks ${missing.join(', ')}`, 'run: holdfast setup');
  } catch (error) {
    return fail(
      name,
      messageOf(translate(error, `namespace ${namespace}`)),
      'check --namespace or TEMPORAL_NAMESPACE, and your permissions',
    );
  }
}

async function workers(connection: Connection, namespace: string): Promise<Finding> {
  try {
    const count = await pollers(connection, namespace, WORKFLOW_QUEUE, TASKS.workflow);
    if (count > 0) return ok('workers', `${count} ${count === 1 ? 'polls' : 'poll'} the queue "${WORKFLOW_QUEUE}"`);
    return fail('workers', `none polls the queue "${WORKFLOW_QUEUE}"`, 'start one: holdfast worker');
  } catch (error) {
    return fail('workers', messageOf(translate(error, 'the task queue')), 'check the namespace');
  }
}

async function* providers(connection: Connection, setting: Setting): AsyncGenerator<Finding> {
  let known: readonly ProviderManifest[];
  try {
    const client = await clientOf(setting, setting.tenant);
    known = await client
      .describeRuntime()
      .then(
        (described) => described.providers,
        (error) => Promise.reject(error),
      )
      .finally(() => client.close());
  } catch (error) {
    yield fail(
      'providers',
      messageOf(error),
      'with a payload codec, this command needs the same one: "dataConverter" in holdfast.config.ts',
    );
    return;
  }
  if (known.length === 0)
    yield fail('providers', 'no worker has ever announced one', 'start a worker: holdfast worker');
  for (const { id, version } of known) {
    const count = await pollers(connection, setting.cluster.namespace, providerQueue(id), TASKS.activity).catch(
      () => 0,
    );
    const name = `provider ${id}`;
    if (count > 0) yield ok(name, `${version}, ${count} ${count === 1 ? 'worker' : 'workers'}`);
    else
      yield warn(
        name,
        `${version} was announced, but no worker polls its queue`,
        `executions for it wait: start a worker with ${id}`,
      );
  }
}

/** Agents are run by workers, which may be elsewhere: here it is only said which are at hand. */
async function* agents(): AsyncGenerator<Finding> {
  const found = (
    await Promise.all(AGENTS.map(async (name) => ((await findOnPath(name, process.env)) ? [name] : [])))
  ).flat();
  if (found.length > 0)
    yield ok('agents on PATH', `${found.join(', ')} (providers.acp.agents in the configuration makes them a provider)`);
  else
    yield warn(
      'agents on PATH',
      `none of ${AGENTS.join(', ')}`,
      'for a coding agent: npm install -g opencode-ai, then name it in providers.acp.agents',
    );
}

async function pollers(
  connection: Connection,
  namespace: string,
  queue: string,
  taskQueueType: number,
): Promise<number> {
  const request = { namespace, taskQueue: { name: queue }, taskQueueType };
  const answer = await connection.withDeadline(Date.now() + CALL_MS, () =>
    connection.workflowService.describeTaskQueue(request),
  );
  const oldest = Date.now() - POLLER_AGE_MS;
  const alive = (answer.pollers ?? []).filter(
    ({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1000 > oldest,
  );
  // One worker may poll a queue more than once.
  return new Set(alive.map(({ identity }) => identity)).size;
}

function ok(check: string, found: string): Finding {
  return { check, status: 'ok', found };
}

function warn(check: string, found: string, advice: string): Finding {
  return { check, status: 'warn', found, advice };
}

function fail(check: string, found: string, advice: string): Finding {
  return { check, status: 'fail', found, advice };
}

function messageOf(error: unknown): string {
  if (error instanceof HoldfastError) return error.message;
  return error instanceof Error ? error.message : String(error);
}
