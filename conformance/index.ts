/** Whether a provider keeps the contract, as `holdfast/conformance`. */
export {
  CHECK_NAMES,
  type ClientOptions,
  type ConformanceOptions,
  checkConformance,
  type ProviderOptions,
} from './conformance.js';
export type { ConformanceClient } from './kit.js';
export { type CheckResult, type ConformanceReport, formatReport, type Outcome } from './report.js';
export type { Scenario, Scenarios } from './scenarios.js';
