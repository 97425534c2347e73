/** A configuration as the options of a worker. */
import { HoldfastError } from '../../protocol/errors.js';
import { type AcpOptions, acpProvider } from '../../providers/acp/acp.js';
import { type AiOptions, aiProvider } from '../../providers/ai/ai.js';
import { type CommandOptions, commandProvider } from '../../providers/command/command.js';
import type { AnyProvider } from '../../providers/provider.js';
import { type RemoteOptions, remoteProvider } from '../../providers/remote/remote.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import type { HoldfastWorkerOptions } from '../../worker/options.js';
import { type ConfigFile, wrong } from './read.js';
import type { Config } from './schema.js';

/** @throws HoldfastError `VALIDATION_ERROR` that names the file and the key */
export function workerOptions({ path = 'holdfast.config.json', config }: ConfigFile): HoldfastWorkerOptions {
  const configured = providersOf(path, config.providers);
  const known = configured.map((provider) => provider.manifest.id);
  const check = (key: string, id: string): void => {
    if (!known.includes(id)) throw wrong(path, `${key}: there is no provider of this id; there is ${known.join(', ')}`);
  };
  for (const id of Object.keys(config.slots ?? {})) check(`slots.${id}`, id);
  for (const id of config.queues ?? []) check(`queues: ${id}`, id);
  const ids = config.queues ?? known;
  const { slots, pool, rollover, drainMs, dataConverter } = config;
  return {
    providers: configured.filter((provider) => ids.includes(provider.manifest.id)),
    ...(slots === undefined
      ? {}
      : { slots: Object.fromEntries(Object.entries(slots).filter(([id]) => ids.includes(id))) }),
    ...(pool === undefined ? {} : { pool: withoutUndefined(pool) }),
    ...(rollover === undefined ? {} : { rollover: withoutUndefined(rollover) }),
    ...(drainMs === undefined ? {} : { drainMs }),
    ...(dataConverter === undefined ? {} : { dataConverter }),
  };
}

function providersOf(path: string, named: Config['providers']): AnyProvider[] {
  if (named === undefined) throw wrong(path, 'providers: name at least one: scripted, acp, ai, command, remote');
  const { scripted, acp, ai, command, remote, custom = [] } = named;
  return [
    ...(scripted === undefined ? [] : [scriptedProvider(withoutUndefined(scripted))]),
    ...(acp === undefined ? [] : [made(path, 'acp', () => acpProvider(acp as AcpOptions))]),
    ...(ai === undefined ? [] : [made(path, 'ai', () => aiProvider(ai as unknown as AiOptions))]),
    ...(command === undefined ? [] : [made(path, 'command', () => commandProvider(command as CommandOptions))]),
    ...remotes(path, remote),
    ...custom,
  ];
}

function remotes(path: string, given: NonNullable<Config['providers']>['remote']): AnyProvider[] {
  if (given === undefined) return [];
  if (!Array.isArray(given)) return [made(path, 'remote', () => remoteProvider(given as RemoteOptions))];
  return given.map((options, index) =>
    made(path, 'remote', () => remoteProvider(options as RemoteOptions), `remote.${index}`),
  );
}

type Named = 'acp' | 'ai' | 'command' | 'remote';

/** A provider names its options by themselves; the file has them under its name, or at `place`. */
function made(path: string, name: Named, make: () => AnyProvider, place: string = name): AnyProvider {
  try {
    return make();
  } catch (error) {
    if (!(error instanceof HoldfastError)) throw error;
    throw wrong(path, error.message.replace(`${name}Provider: `, `providers.${place}.`));
  }
}

export function withoutUndefined<T extends object>(fields: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };
}
