import { Bench } from '/work/main/bench/support/bench.js';
import { QUICK } from '/work/main/bench/support/scale.js';
import { WorkerProcess } from '/work/main/bench/holdfast/processes.js';
import { inLanes } from '/work/main/bench/support/stats.js';
const bench = await Bench.start(QUICK, console.error);
await bench.stopWorker();
const w = await WorkerProcess.start(bench.server.address);
const rest=(ms:number)=>new Promise(r=>setTimeout(r,ms));
await rest(3000);
console.log('idle', (await w.bytes())/2**20);
let n=0;
for (const upTo of [30,100,200,400,700,1000]) {
  const t=Date.now();
  await inLanes(upTo-n, 30, async (_, lane) => {
    const id = await bench.submit({ kind: 'approve', suspend: true }, { lane });
    for await (const e of bench.client.events(id)) if (e.type==='action.required') break;
  });
  const took=(Date.now()-t)/1000; 
  await rest(3000);
  console.log(upTo, Math.round((await w.bytes())/2**20), 'MB', ((upTo-n)/took).toFixed(1)+'/s');
  n=upTo;
}
await w.stop(); await bench.stop(); process.exit(0);
