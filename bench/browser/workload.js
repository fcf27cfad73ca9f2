/**
 * The work that is timed, as in bench/workload.py, for peers written in JavaScript.
 *
 * A batch is a tensor {shape, data}: tokens (B, T + 1) in an Int32Array, weights (B, T) in a Float32Array.
 */

export const RATE = 0.001;
export const ADAM = { beta1: 0.9, beta2: 0.99, epsilon: 1e-8 };
export const CLIP_NORM = 1;
const KL_SHARE = 0.02;
const CHECK_STEPS = 3;
const COT = { steps: 1500, evaluateEvery: 250, samplings: 3, directLength: 4 };
export const END = 15;
const PROMPT_LENGTH = 7;

const KINDS = { int32: Int32Array, float32: Float32Array, int64: BigInt64Array };

export function unpackMaterial({ shape, layout, arrays }) {
  const named = {};
  for (const [name, packed] of Object.entries(arrays)) named[name] = unpack(packed);
  return { shape, layout, arrays: named };
}

function unpack({ shape, dtype, data }) {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  return { shape, data: new KINDS[dtype](bytes.buffer) };
}

function pack({ shape, data }) {
  let text = "";
  for (const byte of new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) text += String.fromCharCode(byte);
  return { shape, dtype: data instanceof Int32Array ? "int32" : "float32", data: btoa(text) };
}

/** One entry of a tensor's first axis. */
function at({ shape, data }, index) {
  const size = data.length / shape[0];
  return { shape: shape.slice(1), data: data.subarray(index * size, (index + 1) * size) };
}

export async function check(peer, material) {
  const { arrays } = material;
  await peer.load(material);
  const answered = { logprobs: pack(await peer.logprobs(at(arrays.tokens, 0))) };
  if (arrays.prompts) answered.answers = pack(await sample(peer, material));
  for (let index = 0; index < CHECK_STEPS; index++) await sft(peer, material, index);
  answered.stepped = pack(await peer.logprobs(at(arrays.tokens, 0)));
  return answered;
}

function sft(peer, { arrays }, turn) {
  const index = turn % arrays.tokens.shape[0];
  return peer.step(at(arrays.tokens, index), at(arrays.weights, index));
}

function sample(peer, { arrays }) {
  return peer.decode(arrays.prompts, arrays.uniforms.shape[1], arrays.uniforms);
}

async function grpo(peer, material) {
  const { prompts, advantages } = material.arrays;
  const answers = await sample(peer, material);
  const [B, length] = answers.shape;
  const P = prompts.shape[1];
  const T = P + length - 1;
  const tokens = new Int32Array(B * (T + 1));
  for (let b = 0; b < B; b++) {
    tokens.set(prompts.data.subarray(b * P, (b + 1) * P), b * (T + 1));
    tokens.set(answers.data.subarray(b * length, (b + 1) * length), b * (T + 1) + P);
  }
  const batch = { shape: [B, T + 1], data: tokens };
  const old = await peer.logprobs(batch);
  const reference = await peer.logprobs(batch, true);
  const weights = new Float32Array(B * T);
  for (let b = 0; b < B; b++) {
    const row = answers.data.subarray(b * length, (b + 1) * length);
    const count = row.includes(END) ? row.indexOf(END) + 1 : length;
    for (let t = 0; t < count; t++) {
      const place = b * T + PROMPT_LENGTH - 1 + t;
      const push = KL_SHARE * (1 - Math.exp(reference.data[place] - old.data[place])) - advantages.data[b];
      weights[place] = push / (count * B);
    }
  }
  await peer.step(batch, { shape: [B, T], data: weights });
}

async function cot(peer, material) {
  const { arrays } = material;
  const length = arrays.uniforms.shape[1];
  for (const [tokens, weights, room] of [
    ["tokens", "weights", length],
    ["direct_tokens", "direct_weights", COT.directLength],
  ]) {
    await peer.decode(arrays.held_out, room, null);
    for (let step = 0; step < COT.steps; step++) {
      const index = step % arrays[tokens].shape[0];
      await peer.step(at(arrays[tokens], index), at(arrays[weights], index));
      if ((step + 1) % COT.evaluateEvery === 0) await peer.decode(arrays.held_out, room, null);
    }
  }
  await peer.load(material);
  for (let turn = 0; turn < COT.samplings; turn++) {
    await peer.decode(arrays.chain_prompts, length, arrays.chain_uniforms);
  }
}

const WORK = { sft, sample, grpo, cot };

/** See `timed` in bench/workload.py. */
export async function timed(peer, material, work, seconds) {
  const run = WORK[work];
  await peer.load(material);
  let turns = 1;
  if (work !== "cot") {
    await run(peer, material, 0);
    const start = performance.now();
    for (turns = 0; turns < 3 || performance.now() - start < 50; turns++) await run(peer, material, turns);
    turns = Math.max(1, Math.round((seconds * 1000 * turns) / (performance.now() - start)));
    await peer.load(material);
  }
  const start = performance.now();
  for (let turn = 0; turn < turns; turn++) await run(peer, material, turn);
  return { ms: (performance.now() - start) / turns, turns };
}

/** Index of the token that a row of logits chooses: the largest, or by inverse CDF of its softmax. */
export function choose(logits, from, size, uniform) {
  let most = from;
  for (let i = from; i < from + size; i++) if (logits[i] > logits[most]) most = i;
  if (uniform === null) return most - from;
  const cumulative = new Float64Array(size);
  let total = 0;
  for (let i = 0; i < size; i++) cumulative[i] = total += Math.exp(logits[from + i] - logits[most]);
  let token = 0;
  while (token < size - 1 && cumulative[token] <= uniform * total) token++;
  return token;
}
