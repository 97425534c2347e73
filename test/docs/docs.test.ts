/** The documentation is true of the code: its links, commands, tables and configurations; and its TypeScript compiles. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readConfig } from '../../cli/config/read.js';
import { configSchema } from '../../cli/config/schema.js';
import { workerOptions } from '../../cli/config/worker-options.js';
import { EXIT } from '../../cli/exit.js';
import { createProgram } from '../../cli/program.js';
import { CHECK_NAMES } from '../../conformance/index.js';
import { createGateway, type GatewayClient } from '../../gateway/index.js';
import { GATEWAY_STATUS } from '../../gateway/problem.js';
import { approvalOptionSchema } from '../../protocol/action.js';
import { ERROR_STATUS, EXECUTION_ONLY_CODES } from '../../protocol/errors.js';
import { confirmationSchema, eventTypeSchema, nativeNameProblem } from '../../protocol/event.js';
import { startExecutionRequestSchema } from '../../protocol/execution.js';
import { TRANSITIONS } from '../../protocol/lifecycle.js';
import * as limits from '../../protocol/limits.js';
import { PROTOCOL_VERSION, STANDARD_CAPABILITIES } from '../../protocol/manifest.js';
import { MAX_TRANSCRIPT_BYTES, MAX_TRANSCRIPT_TURNS, MAX_TURN_BYTES } from '../../protocol/turns.js';
import { VERSION } from '../../protocol/version.js';
import { resolveOptions } from '../../providers/acp/options.js';
import { resolveOptions as resolveRemote } from '../../providers/remote/options.js';
import { scriptedProvider } from '../../providers/scripted/provider.js';
import { publishedManifest } from '../../worker/options.js';
import { SEARCH_ATTRIBUTES } from '../../workflows/messages.js';
import { anchors, blocks, links, pages, prose, root, table, text, word } from './markdown.js';
import { compile } from './snippets.js';

describe('every link of the documentation', () => {
  it.each(pages)('leads somewhere: %s', (page) => {
    for (const link of links(page)) {
      if (/^https?:/.test(link)) continue;
      const [path = '', anchor] = link.split('#');
      const target = path === '' ? page : normalize(join(dirname(page), path));
      expect(existsSync(join(root, target)), `${page}: ${link}`).toBe(true);
      if (anchor !== undefined) expect(anchors(target), `${page}: ${link}`).toContain(anchor);
    }
  });
});

it('the list of decisions names each page', () => {
  const decisions = pages.filter((page) => /^docs\/decisions\/\d/.test(page)).map((page) => page.split('/')[2]);
  expect(links('docs/decisions/README.md')).toEqual(decisions);
});

describe('every command of the documentation', () => {
  const everything = pages.map(text).join('\n');
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>;
  };

  it('that npm runs is a script of the package', () => {
    const named = [...everything.matchAll(/\bnpm (?:run (?:--silent )?([\w:-]+)|(start|test)\b)/g)];
    expect(named.length).toBeGreaterThan(10);
    for (const [command, run, short] of named) expect(Object.keys(scripts), command).toContain(run ?? short);
  });

  it('of holdfast is one, with flags that it has', () => {
    const { commands } = createProgram(() => undefined);
    const named = [...everything.matchAll(/\b(?:npx )?holdfast ([a-z-]+)((?: +--?[\w-]+(?: [^\s`|-]\S*)?)*)/g)];
    const written = named.filter(([whole]) => whole.startsWith('npx ') || everything.includes(`\`${whole}\``));
    expect(written.length).toBeGreaterThan(10);
    for (const [whole, name, flags = ''] of written) {
      const command = commands.find((each) => each.name() === name);
      expect([whole, command?.name()]).toEqual([whole, name]);
      const known = [command, ...(command?.commands ?? [])].flatMap((each) => each?.options.map(({ long }) => long));
      for (const [flag] of flags.matchAll(/--[\w-]+/g))
        expect([whole, known]).toEqual([whole, expect.arrayContaining([flag])]);
    }
  });

  it('that runs a file names one that is there', () => {
    const files = [...everything.matchAll(/\bnpx (?:tsx|vitest run --project \w+) ([\w/.-]+)/g)];
    expect(files.length).toBeGreaterThan(1);
    for (const [command, file = ''] of files) {
      // A file of the repository, or one that a snippet gives.
      const there = existsSync(join(root, file)) || everything.includes(`file=${file}\n`);
      expect(there, command).toBe(true);
    }
  });
});

it('every file and folder that is named is there', () => {
  const named = pages.flatMap((page) =>
    [...prose(page).matchAll(/`([\w.-]+\/(?:[\w./-]*))`/g)].map(([, path]) => path),
  );
  const ours = named.filter((path) => existsSync(join(root, path?.split('/')[0] ?? '')) && !path?.startsWith('dist'));
  expect(ours.length).toBeGreaterThan(20);
  for (const path of ours) expect(existsSync(join(root, path ?? '')), path).toBe(true);
});

describe('the tables say what the code says', () => {
  it('of errors, with their HTTP status, and with advice for each', () => {
    const portable = Object.entries(ERROR_STATUS).map(([code, status]) => [code, String(status)]);
    const own = EXECUTION_ONLY_CODES.map((code) => [code, '–']);
    expect(table('docs/contract.md', 'code')).toEqual(portable);
    expect(table('docs/operating.md', 'code').map(([code, status]) => [code, status])).toEqual([...portable, ...own]);
    for (const code of EXECUTION_ONLY_CODES) expect(prose('docs/contract.md')).toContain(`\`${code}\``);
  });

  it('of limits: all of them, with their values', () => {
    const { KIB, ...values } = limits;
    const shown = table('docs/operating.md', 'what');
    expect(shown.map(([, , name]) => name).sort()).toEqual(Object.keys(values).sort());
    for (const [what, limit = '', name = ''] of shown) {
      const value = values[name as keyof typeof values];
      const said = name.endsWith('_BYTES') ? `${value / KIB} KiB` : value.toLocaleString('en-US');
      expect(limit.replace(/ (characters|\(.*\))$/, ''), what).toBe(said);
    }
  });

  it('of the gateway’s routes and of the codes that are its own', async () => {
    const client = { tenant: 'default' } as GatewayClient;
    const document = (await (await createGateway({ client }).request('/openapi.json')).json()) as {
      paths: Record<string, Record<string, unknown>>;
    };
    const routes = Object.entries(document.paths).flatMap(([path, item]) =>
      Object.keys(item).map((method) => `${method.toUpperCase()} ${path}`),
    );
    const shown = table('docs/gateway.md', 'route').map(([route]) => route);
    expect([...shown].sort()).toEqual(routes.sort());
    const codes = Object.entries(GATEWAY_STATUS).map(([code, status]) => [code, String(status)]);
    expect(table('docs/gateway.md', 'code')).toEqual(codes);
  });

  it('of the commands, their exit codes and what a configuration may hold', () => {
    const commands = createProgram(() => undefined).commands.map((command) => command.name());
    const shown = table('docs/cli.md', 'command').flatMap(([row = '']) =>
      row.split(', ').map((each) => each.split(' ')[0]),
    );
    expect(shown.sort()).toEqual(commands.sort());
    const codes = table('docs/cli.md', 'code').map(([code]) => Number(code));
    expect(codes).toEqual(expect.arrayContaining(Object.values(EXIT)));
    const keys = table('docs/cli.md', 'key').flatMap(([row = '']) => row.split(', '));
    expect(keys.sort()).toEqual(Object.keys(configSchema.shape).sort());
    const gateway = table('docs/cli.md', 'key')
      .find(([key]) => key === 'gateway')?.[1]
      ?.split(', ');
    expect(gateway).toEqual(Object.keys(configSchema.shape.gateway.unwrap().shape));
  });

  it('of what a busy conversation does, and of what a turn hands on', () => {
    const shown = table('docs/contract.md', 'onBusy').map(([onBusy]) => onBusy);
    expect(shown).toEqual(startExecutionRequestSchema.shape.onBusy.unwrap().options);
    const contract = prose('docs/contract.md').replace(/\s+/g, ' ');
    expect(contract).toContain(`newest ${MAX_TRANSCRIPT_TURNS}, at most ${MAX_TRANSCRIPT_BYTES / limits.KIB} KiB`);
    expect(contract).toContain(`input over ${MAX_TURN_BYTES / limits.KIB} KiB`);
    expect(contract).toContain(`up to ${limits.MAX_SESSION_BYTES / limits.KIB} KiB`);
  });

  it('of states and their arrows', () => {
    const shown = table('docs/contract.md', 'state').flatMap(([states = '', next = '']) =>
      states.split(', ').map((state) => [state, next === '–' ? [] : next.split(', ')]),
    );
    expect(Object.fromEntries(shown)).toEqual(TRANSITIONS);
  });

  it('of events, confirmations, capabilities and search attributes', () => {
    expect(table('docs/contract.md', 'type').map(([type]) => type)).toEqual(eventTypeSchema.options);
    const confirmations = table('docs/contract.md', 'confirmation').map(([name]) => name);
    expect(confirmations).toEqual(confirmationSchema.options);
    const contract = prose('docs/contract.md');
    for (const name of STANDARD_CAPABILITIES) expect(contract).toContain(`\`${name}\``);
    for (const kind of approvalOptionSchema.shape.kind.options) expect(contract).toContain(`\`${kind}\``);
    for (const name of Object.values(SEARCH_ATTRIBUTES)) expect(prose('docs/operating.md')).toContain(`\`${name}\``);
    for (const name of ['runtime', 'run', 'output', 'action', 'artifact', 'provider'])
      expect(nativeNameProblem(`${name}.x`), name).toBeDefined();
  });

  it('of the scripted provider’s steps', () => {
    const schema = publishedManifest(scriptedProvider({ allowCrash: true })).metadata?.configSchema as {
      properties: { steps: { items: { anyOf: { required: string[] }[] } } };
    };
    const steps = schema.properties.steps.items.anyOf.map(({ required }) => required[0]);
    expect(table('docs/providers/scripted.md', 'step').map(([step]) => step)).toEqual(steps);
  });

  it('of the ACP provider’s options and defaults', () => {
    const resolved: Record<string, unknown> = resolveOptions({ agents: { it: { command: 'it', cwd: '/tmp' } } });
    const shown = table('docs/providers/acp.md', 'option');
    expect(Object.keys(resolved)).toEqual(expect.arrayContaining(shown.filter((row) => row[1]).map(([name]) => name)));
    for (const [name = '', said = ''] of shown) {
      if (said === '') continue;
      const value = resolved[name];
      const written = typeof value === 'number' ? value.toLocaleString('en-US') : value;
      expect(said, name).toBe(typeof written === 'string' ? written : JSON.stringify(written));
    }
  });

  it('of the remote provider’s options and defaults', () => {
    const remote = resolveRemote({ baseURL: 'https://agents.example', provider: 'it' });
    const { token: _, ...resolved }: Record<string, unknown> = { ...remote, tokenEnv: '', timeoutSeconds: 0 };
    const shown = table('docs/providers/remote.md', 'option');
    expect(shown.flatMap(([names = '']) => names.split(', ')).sort()).toEqual(Object.keys(resolved).sort());
    for (const [name = '', said = ''] of shown)
      if (typeof resolved[name] === 'number' && name !== 'timeoutSeconds')
        expect(said, name).toBe(resolved[name].toLocaleString('en-US'));
  });

  it('of the checks of the conformance kit', () => {
    const shown = table('docs/conformance.md', 'check').map(([name]) => name);
    expect(shown.sort()).toEqual([...CHECK_NAMES].sort());
  });
});

describe('what is shown as configuration', () => {
  it('is one of the scripted provider', () => {
    const shown = blocks().filter((block) => block.words.includes('config'));
    expect(shown).toHaveLength(1);
    for (const { code } of shown) scriptedProvider().config.parse(JSON.parse(code));
  });

  it('is one of holdfast worker', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-docs-'));
    try {
      const [block] = blocks().filter((each) => word(each, 'file') === 'holdfast.config.json');
      writeFileSync(join(folder, 'holdfast.config.json'), block?.code ?? '');
      const { providers } = workerOptions(await readConfig(join(folder, 'holdfast.config.json')));
      expect(providers.map((provider) => provider.manifest.id)).toEqual(['scripted', 'acp']);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

it('names the versions of the contract and of the package', () => {
  expect(prose('docs/contract.md')).toContain(`\`${PROTOCOL_VERSION}\``);
  expect(prose('CHANGELOG.md')).toContain(`## ${VERSION} `);
  expect(prose('README.md')).toContain(`holdfast-${VERSION}.tgz`);
});

it('shows the echo provider as it is in examples/, under 40 lines', () => {
  const [block] = blocks().filter((each) => word(each, 'file') === 'echo.ts');
  const body = (code: string): string => code.slice(code.indexOf('export const echo')).trim();
  expect(body(block?.code ?? '')).toBe(body(readFileSync(join(root, 'examples/echo-provider.ts'), 'utf8')));
  expect((block?.code ?? '').trim().split('\n').length).toBeLessThan(40);
});

it('compiles every piece of TypeScript, against the sources, as strictly as these', async () => {
  const typescript = blocks().filter((block) => block.language === 'ts');
  expect(typescript.length).toBeGreaterThan(6);
  const wrong = { page: 'wrong', line: 1, language: 'ts', words: [], code: "export const wrong: number = 'a text';\n" };
  const said = await compile([...typescript, wrong]);
  expect(said).toEqual([expect.stringMatching(/^wrong-1\.ts\(1,14\): error TS2322/)]);
}, 120_000);
