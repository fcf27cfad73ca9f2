/** Rates of bench/simd/: GFLOP/s of bare multiplications and additions, and of the kernel's products. */

import { serve } from "./lane.js";

const BURSTS = 5;
const FACTOR = 0.999;
const TERM = 0.001;
const FLOPS_PER_LINK = 4 * 4 * 2; // four links a round, four lanes, a multiplication and an addition

serve(async ({ file }) => {
  const { instance } = await WebAssembly.instantiateStreaming(fetch(file));
  const code = instance.exports;
  return ({ counts, seconds }) => {
    const peak = {};
    for (const count of counts) {
      const run = code[`peak_${count}`];
      peak[count] = rate(seconds, (rounds) => (run(rounds, FACTOR, TERM), rounds * count * FLOPS_PER_LINK), 20000);
    }
    return { peak, products: rate(seconds, (rounds) => code.products(rounds), 50) };
  };
});

/** Best of a few bursts. `work(rounds)` returns how many operations it did; the first calls let the engine compile well. */
function rate(seconds, work, rounds) {
  const warm = performance.now();
  let passes = 0;
  for (; passes < 3 || performance.now() - warm < 30; passes++) work(rounds);
  const total = Math.max(1, Math.round((rounds * (seconds / BURSTS) * 1000 * passes) / (performance.now() - warm)));
  let best = 0;
  for (let burst = 0; burst < BURSTS; burst++) {
    const start = performance.now();
    const operations = work(total);
    best = Math.max(best, operations / (performance.now() - start) / 1e6);
  }
  return best;
}
