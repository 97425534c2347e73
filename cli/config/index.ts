/** For `holdfast.config.ts`, as `holdfast/config`. */
export { defineConfig, type HoldfastConfig } from './schema.js';
