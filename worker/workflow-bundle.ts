/** The workflows' code as workers load it: built with the package, or bundled now when that cannot be used. */
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, type WorkflowBundleOption } from '@temporalio/worker';

const BUILT = fileURLToPath(new URL('../workflow-bundle.js', import.meta.url));

export interface BundleOptions {
  /** A failure converter becomes part of the bundle, so with one the built bundle does not do. */
  readonly failureConverterPath?: string;
}

/** The bundle to load. Bundling takes about two seconds; the built one takes none. */
export async function workflowBundle(options: BundleOptions = {}): Promise<WorkflowBundleOption> {
  const given = process.env.HOLDFAST_WORKFLOW_BUNDLE;
  if (options.failureConverterPath === undefined) {
    if (given !== undefined && given !== '' && existsSync(given)) return { codePath: given };
    if (existsSync(BUILT)) return { codePath: BUILT };
  }
  return await bundleWorkflows(options);
}

/** Bundles the workflows from their sources (`.js` of the package, `.ts` of a checkout). */
export async function bundleWorkflows(options: BundleOptions = {}): Promise<{ code: string }> {
  const here = import.meta.url.endsWith('.ts') ? 'ts' : 'js';
  const path = (name: string): string => fileURLToPath(new URL(`../workflows/${name}.${here}`, import.meta.url));
  const { failureConverterPath } = options;
  return await bundleWorkflowCode({
    workflowsPath: path('index'),
    payloadConverterPath: path('payload-converter'),
    preloadModules: [path('preload')],
    workflowInterceptorModules: [path('reserved-signals')],
    ...(failureConverterPath === undefined ? {} : { failureConverterPath }),
    logger: { log() {}, trace() {}, debug() {}, info() {}, warn() {}, error: console.error },
    // Sources name each other with `.js`, as Node wants it; in a checkout these are `.ts` files.
    webpackConfigHook: (config) => {
      config.resolve = { ...config.resolve, extensionAlias: { '.js': ['.ts', '.js'] } };
      return config;
    },
  });
}
