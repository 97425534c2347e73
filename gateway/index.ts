/** HTTP and SSE over a client, as `holdfast/gateway`. */
export { createGateway } from './app.js';
export { type RunningGateway, type ServeOptions, serveGateway } from './server.js';
export type { GatewayClient, GatewayOptions } from './settings.js';
export { type ApiToken, parseApiTokens } from './tokens.js';
