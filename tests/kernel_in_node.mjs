// Replays recorded training batches with the kernel's WebAssembly side module alone and prints the sha256 of the
// parameters and Adam's memory. Arguments: the module, the folder of the recording, steps, sequences, positions.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const [, , wasm, folder, ...sizes] = process.argv;
const [steps, sequences, positions] = sizes.map(Number);
const memory = new WebAssembly.Memory({ initial: 512 });
const number = (value, mutable = false) => new WebAssembly.Global({ value: "i32", mutable }, value);
const module = new WebAssembly.Module(readFileSync(wasm));
const { exports } = new WebAssembly.Instance(module, {
  env: { memory, __memory_base: number(1 << 16), __table_base: number(0), __stack_pointer: number(1 << 16, true) },
});
exports.__wasm_apply_data_relocs?.();

let end = 1 << 20;
function room(bytes) {
  const at = end;
  end += (bytes + 63) & ~63;
  return at;
}
function read(name) {
  const data = readFileSync(join(folder, `${name}.bin`));
  const at = room(data.length);
  new Uint8Array(memory.buffer, at, data.length).set(data);
  return [at, data.length];
}

const [shape] = read("shape");
const [parameters, bytes] = read("initial");
const [tokens] = read("tokens");
const [weights] = read("weights");
const [settings] = read("settings");
const mean = room(bytes);
const square = room(bytes);
const norm = room(8);
const floats = exports.raona_step_floats(shape, sequences, positions);
const workspace = room(4 * floats);
for (let step = 0; step < steps; step++) {
  const status = exports.raona_step(
    shape, sequences, positions, parameters,
    tokens + 4 * step * sequences * (positions + 1), weights + 4 * step * sequences * positions,
    mean, square, settings + 8 * 6 * step, norm, workspace, floats,
  );
  if (status) throw new Error(`step ${step} ended with status ${status}`);
}
const hash = createHash("sha256");
for (const array of [parameters, mean, square]) hash.update(new Uint8Array(memory.buffer, array, bytes));
console.log(hash.digest("hex"));
