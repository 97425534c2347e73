/**
 * Streams through Temporal's own workflow-streams, in a process of its own: a worker, a publisher in an activity, a
 * subscriber outside. Takes tasks as JSON lines on standard input and answers each with one on standard output.
 */
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, Connection } from '@temporalio/client';
import { DefaultLogger, NativeConnection, Runtime, Worker } from '@temporalio/worker';
import { WorkflowStreamClient } from '@temporalio/workflow-streams/client';

const [address, namespace] = process.argv.slice(2);
const taskQueue = 'bench-workflow-streams';
const now = () => performance.timeOrigin + performance.now();

Runtime.install({ logger: new DefaultLogger('ERROR') });
const client = new Client({ connection: await Connection.connect({ address }), namespace });
const worker = await Worker.create({
  connection: await NativeConnection.connect({ address }),
  namespace,
  taskQueue,
  workflowsPath: fileURLToPath(new URL('./workflow.js', import.meta.url)),
  activities: { publish },
});
const running = worker.run();

/** Keeps to the clock, as the bench's own provider does. */
async function publish({ events, perSecond, tuned }) {
  const stream = WorkflowStreamClient.fromWithinActivity(tuned ? { batchInterval: '20 ms' } : {});
  const topic = stream.topic('events');
  const from = now();
  for (let i = 0; i < events; i++) {
    const early = from + (i * 1_000) / perSecond - now();
    if (early > 0) await delay(Math.max(1, early));
    topic.publish({ text: `${now().toFixed(2)}\n` });
  }
  // What `await using` does, which Node 20 cannot parse.
  await stream[Symbol.asyncDispose]();
}

async function stream(task, number) {
  const workflowId = `workflow-streams-${process.pid}-${number}`;
  const handle = await client.workflow.start('streamed', { taskQueue, workflowId, args: [task] });
  const subscriber = WorkflowStreamClient.create(client, workflowId).topic('events');
  const delays = [];
  for await (const item of subscriber.subscribe(0, task.tuned ? { pollCooldown: 0 } : {})) {
    delays.push(now() - Number(item.data.text));
    if (delays.length === task.events) break;
  }
  await handle.signal('close');
  await handle.result();
  const { events } = await handle.fetchHistory();
  return { delays, historyEvents: events.length };
}

process.stdout.write('{"ready":true}\n');
let number = 0;
for await (const line of createInterface({ input: process.stdin })) {
  try {
    process.stdout.write(`${JSON.stringify(await stream(JSON.parse(line), number++))}\n`);
  } catch (error) {
    process.stdout.write(`${JSON.stringify({ error: String(error) })}\n`);
  }
}
worker.shutdown();
await running;
process.exit(0);
