/**
 * Loaded once a worker, before any workflow: the SDK then shares what it loads among all of them. Without it every
 * workflow would evaluate zod and all schemas again, which costs 15 ms of CPU and 1.2 MB each. So nothing in
 * `workflows/` and `protocol/` may keep state in a module: what belongs to an execution lives in its objects.
 *
 * The SDK freezes whatever is shared, through and through. A zod schema makes its methods when they are first used, which
 * it then cannot; but that freezing passes over what is frozen already. So here each module's exports are frozen, and no
 * deeper.
 */
import './index.js';
import './payload-converter.js';
import './reserved-signals.js';

declare const __webpack_modules__: Readonly<Record<string, unknown>>;

const { __webpack_module_cache__: loaded } = globalThis as unknown as {
  readonly __webpack_module_cache__: Readonly<Record<string, { readonly exports: object } | undefined>>;
};

for (const id of Object.keys(__webpack_modules__)) {
  const module = loaded[id];
  // The SDK's own modules are left to it; this one is not complete before its end.
  if (module !== undefined && !id.includes('/@temporalio/') && !/\/preload\.[jt]s$/.test(id))
    Object.freeze(module.exports);
}
