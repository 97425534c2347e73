/** What the workflows share: all code of ours and zod is evaluated once a worker, not once a workflow. */
import { readFile } from 'node:fs/promises';
import { createContext, Script } from 'node:vm';
import { describe, expect, it } from 'vitest';

interface Bundle {
  preloadModules(): void;
  importWorkflows(): Record<string, unknown>;
  importInterceptors(): unknown[];
}

/** Loads the bundle as the SDK does, with a module cache of our own. */
async function load(): Promise<{ bundle: Bundle; modules: Map<string, { exports: object }> }> {
  const modules = new Map<string, { exports: object }>();
  const cache = new Proxy(
    {},
    { get: (_, id: string) => modules.get(id), set: (_, id: string, module) => modules.set(id, module) !== undefined },
  );
  const context = createContext({ __webpack_module_cache__: cache, console, TextEncoder, TextDecoder });
  new Script(await readFile(process.env.HOLDFAST_WORKFLOW_BUNDLE!, 'utf8')).runInContext(context);
  return { bundle: context.__TEMPORAL__ as Bundle, modules };
}

describe('the workflow bundle', () => {
  it('leaves nothing to be evaluated for each workflow', async () => {
    const { bundle, modules } = await load();
    bundle.preloadModules();
    const shared = new Set(modules.keys());
    expect([...shared].filter((id) => id.includes('/zod/')).length).toBeGreaterThan(5);
    const workflows = bundle.importWorkflows();
    bundle.importInterceptors();
    expect(Object.keys(workflows).sort()).toEqual(['catalog', 'conversation', 'execution']);
    expect([...modules.keys()].filter((id) => !shared.has(id))).toEqual([]);
  });

  it('freezes the exports of what it shares, and no schema in them', async () => {
    const { bundle, modules } = await load();
    bundle.preloadModules();
    const ours = [...modules].filter(([id]) => !id.includes('/@temporalio/') && !id.includes('/preload.'));
    expect(ours.filter(([, { exports }]) => !Object.isFrozen(exports)).map(([id]) => id)).toEqual([]);
    const inputs = ours.find(([id]) => id.includes('protocol/log/inputs'))?.[1].exports as { markSchema: object };
    expect(Object.isFrozen(inputs.markSchema)).toBe(false);
  });
});
