/**
 * Runs the local model until Ctrl-C:
 *
 *     npx tsx examples/local-model/main.ts [port]
 */
import { startLocalModel } from './server.js';

const port = process.argv[2];
const model = await startLocalModel(port === undefined ? {} : { port: Number(port) });
console.log(`OPENAI_BASE_URL=${model.url}`);
console.log(`OPENAI_API_KEY=${model.apiKey}`);
console.log(`OPENAI_MODEL=${model.model}`);

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void model.stop());
}
